"""Files that users sent, through decoder and Qwen2-VL processor together: the values that the case book gives."""

import io

import numpy as np
import pytest
from PIL import Image as Pillow

from forebay import Image, ModelSource, Prompt, Work
from forebay.plugins import load_processor
from tests.support.media import encoded
from workers.decode import decode_image

MEAN = np.array([0.48145466, 0.4578275, 0.40821073])
STD = np.array([0.26862954, 0.26130258, 0.27577711])


@pytest.fixture(scope="module")
def qwen2():
    return load_processor(ModelSource("qwen2-vl")).processor


def saved(image: Pillow.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def processed(processor, data: bytes):
    """What becomes of a file: the processor's result, and its feature as it lies in memory."""
    media = Image(decode_image(data, "image_data"), "", 0)
    work = Work("r", Prompt(ids=(0,)), (media,), None, lambda shape, dtype: np.empty(shape, dtype.carrier))
    made = processor.process_item(media, work)
    return made, made.feature.array.reshape(made.feature.shape)


def one_of_each_channel(feature: np.ndarray) -> list[float]:
    """The value of a feature that is constant in each channel."""
    channels = feature.reshape(len(feature), 3, -1)
    assert all(np.ptp(channels[:, channel]) == 0 for channel in range(3))
    return channels[0, :, 0].tolist()


@pytest.mark.parametrize(
    ("colour", "expected"),
    [((0, 0, 0, 0), (1.930336, 2.074884, 2.145897)), ((255, 0, 0, 128), (1.930336, 0.153889, 0.325729))],
)
def test_transparent_pixels_are_normalised_as_they_look_on_white(qwen2, colour, expected):
    """C004: through decoder and constants."""
    _, feature = processed(qwen2, saved(Pillow.new("RGBA", (56, 56), colour)))

    assert one_of_each_channel(feature) == pytest.approx(expected, abs=1e-6)


def test_a_print_file_is_normalised_as_red(qwen2):
    """C006: three channels, and not cyan."""
    data = saved(Pillow.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95)

    _, feature = processed(qwen2, data)

    channels = feature.reshape(len(feature), 3, -1).mean(axis=(0, 2))
    assert np.abs(channels - [1.9303, -1.7521, -1.4802]).max() <= 2 / 255 / STD.min()


def test_a_picture_that_lies_on_its_side_has_the_grid_of_the_upright_one(qwen2):
    """C001: a file of 640x480 with tag 6 is one of 480x640."""
    exif = Pillow.Exif()
    exif[0x0112] = 6
    lying = saved(Pillow.new("RGB", (640, 480)), "JPEG", exif=exif)
    upright = saved(Pillow.new("RGB", (480, 640)), "JPEG")

    grids = [processed(qwen2, data)[0].model_specific["image_grid_thw"] for data in (lying, upright)]

    assert grids[0] == grids[1] == [1, 46, 34]


def test_sixteen_bits_are_not_white(qwen2):
    """C003: half of 65,535 is half of 255, where the reference clips."""
    _, feature = processed(qwen2, encoded(np.full((56, 56), 32_768, np.uint16), "PNG"))

    assert one_of_each_channel(feature) == pytest.approx(((128 / 255 - MEAN) / STD).tolist(), abs=1e-5)


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_an_animation_is_one_picture(qwen2, kind):
    """C012: its first frame, and one group of patches."""
    first, *others = (Pillow.new("RGB", (4, 4), colour) for colour in ("red", "green", "blue"))
    data = saved(first, kind, save_all=True, append_images=others, **({"lossless": True} if kind == "WEBP" else {}))

    made, feature = processed(qwen2, data)

    assert made.model_specific["image_grid_thw"][0] == 1
    assert one_of_each_channel(feature) == pytest.approx(((np.array([1, 0, 0]) - MEAN) / STD).tolist(), abs=1e-5)


@pytest.mark.parametrize(("width", "height", "grid", "tokens"), [(1, 1, [1, 4, 4], 4), (200, 1, [1, 2, 58], 29)])
def test_the_smallest_pictures_have_their_grids(qwen2, width, height, grid, tokens):
    """C013: nobody guesses which axis is which."""
    data = saved(Pillow.new("RGB", (width, height), (10, 20, 30)))

    made, feature = processed(qwen2, data)

    assert (made.model_specific["image_grid_thw"], made.tokens) == (grid, tokens)
    assert feature.shape == (grid[1] * grid[2], 1176)
    assert one_of_each_channel(feature) == pytest.approx(
        ((np.array([10, 20, 30]) / 255 - MEAN) / STD).tolist(), abs=1e-5
    )


@pytest.mark.parity
@pytest.mark.parametrize(("width", "height", "most"), [(224, 224, 1e-6), (2048, 1365, None)])
def test_the_other_backend_of_the_reference_differs_by_its_resize_alone(qwen2, record_property, width, height, most):
    """C103: the reference is transformers' torchvision backend, to the bit; its PIL backend rounds otherwise.

    Without a resize both agree to the rounding of float32. With one, the share and size of differences are recorded,
    and the number of tokens is the same.
    """
    transformers = pytest.importorskip("transformers")
    theirs = transformers.Qwen2VLImageProcessorPil(size={"shortest_edge": 3136, "longest_edge": 12_845_056})
    pixels = np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8)

    made, feature = processed(qwen2, encoded(pixels, "PNG"))
    given = theirs(Pillow.fromarray(pixels), return_tensors="np")

    difference = np.abs(feature - given["pixel_values"])
    record_property("largest difference", float(difference.max()))
    record_property("share of values that differ", float((difference > 1e-6).mean()))
    assert made.tokens == int(np.prod(given["image_grid_thw"])) // 4
    assert difference.max() <= (most or 0.2)
