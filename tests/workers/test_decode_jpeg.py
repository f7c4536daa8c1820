"""The fast JPEG decoder gives Pillow's very pixels, over every kind of JPEG that people send."""

import io
from itertools import product

import numpy as np
import pytest
from PIL import Image as Pillow

from workers.decode import image as decoder

SIZES = [(1, 1), (7, 5), (8, 8), (16, 33), (17, 64), (31, 47), (120, 160)]
QUALITIES = [5, 50, 90, 100]
SUBSAMPLINGS = ["4:4:4", "4:2:2", "4:2:0", "4:1:1"]


def picture(height, width, mode):
    """Half smooth, half noise."""
    rng = np.random.default_rng(height * 1000 + width)
    ramp = np.linspace(0, 255, width)[None, :, None] * np.ones((height, 1, 3))
    pixels = np.where(rng.random((height, width, 1)) < 0.5, ramp, rng.integers(0, 256, (height, width, 3)))
    return Pillow.fromarray(pixels.astype(np.uint8)).convert(mode)


def jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def by_pillow(data):
    with Pillow.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_the_fast_decoder_gives_pillows_pixels(mode, progressive):
    """Qualities, subsamplings, odd sizes, grey and progressive: to the byte, and the fast path was taken."""
    compared = 0
    for (height, width), quality, subsampling in product(SIZES, QUALITIES, SUBSAMPLINGS):
        data = jpeg(picture(height, width, mode), quality=quality, subsampling=subsampling, progressive=progressive)

        fast = decoder._fast_jpeg(data, "image_data")

        assert fast is not None
        assert np.array_equal(fast, by_pillow(data)), (height, width, quality, subsampling)
        compared += 1
    assert compared == 112


@pytest.mark.parametrize(
    "options", [{"optimize": True}, {"restart_marker_rows": 1}, {"dpi": (300, 300)}, {"comment": b"c"}]
)
def test_segments_that_turn_nothing_keep_a_jpeg_on_the_fast_path(options):
    """Resolution, comments, restart markers."""
    data = jpeg(picture(33, 47, "RGB"), **options)

    fast = decoder._fast_jpeg(data, "image_data")

    assert fast is not None
    assert np.array_equal(fast, by_pillow(data))


def test_fill_bytes_between_segments_are_no_obstacle():
    """Any number of them may precede a marker."""
    data = jpeg(picture(16, 16, "RGB"))
    filled = data[:2] + b"\xff\xff\xff" + data[2:]

    assert np.array_equal(decoder.decode_image(filled, "image_data"), by_pillow(data))


def test_print_colours_are_left_to_pillow():
    """The fast decoder would invert them."""
    data = jpeg(picture(16, 16, "CMYK"))

    assert decoder._fast_jpeg(data, "image_data") is None
    assert np.array_equal(decoder.decode_image(data, "image_data"), by_pillow(data))


def test_rgb_inside_a_jpeg_is_left_to_pillow():
    """Adobe's transform 0: the three components are the colours themselves."""
    data = jpeg(picture(16, 16, "RGB"), keep_rgb=True, quality=95)

    assert decoder._fast_jpeg(data, "image_data") is None
    assert np.array_equal(decoder.decode_image(data, "image_data"), by_pillow(data))


def test_garbage_behind_the_end_is_fine():
    """Cameras and messengers append things."""
    data = jpeg(picture(16, 16, "RGB"))

    assert np.array_equal(decoder.decode_image(data + b"garbage", "image_data"), by_pillow(data))


def test_a_jpeg_with_a_second_picture_behind_it_gives_the_first():
    """Phones store a preview, a depth map or another exposure there."""
    file = io.BytesIO()
    first, second = picture(16, 16, "RGB"), picture(8, 8, "RGB")
    first.save(file, "MPO", save_all=True, append_images=[second])

    assert decoder.decode_image(file.getvalue(), "image_data").shape == (16, 16, 3)
