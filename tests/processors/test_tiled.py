"""Tiled pictures: pixels, tokens and prompts of Hugging Face's own processors, bit for bit, in both modes."""

import json

import numpy as np
import pytest
from PIL import Image as Pillow

from forebay import ConfigurationError, ModelSource, Rejected, Span, testing
from processors.pixels.modes import Resample
from processors.tiled import InternVL, LlavaNext
from processors.tiled.grids import canvas_by_shape, canvas_of_pinpoints
from tests.processors.pictures import landscape, noise
from tests.support.hf_folders import PINPOINTS, SIDE, internvl, llava_next

SIZES = [(60, 90), (300, 200), (56, 56), (10, 150), (333, 517), (3, 40), (150, 10), (480, 640), (97, 131), (1, 1)]
MODES = {Resample.TORCHVISION: "", Resample.PIL: "Pil"}
FAMILIES = {
    "internvl": (InternVL, internvl, "GotOcr2ImageProcessor", "<IMG_CONTEXT>"),
    "llava-next": (LlavaNext, llava_next, "LlavaNextImageProcessor", "<image>"),
}
SEEDED = 3000


def pictures():
    draw = (noise, landscape)
    return [draw[number % 2](*size, seed=number) for number, size in enumerate(SIZES)]


def made(transformers, family, mode, folder):
    """Ours, theirs, and the token that stands for a picture; the folder is theirs, with the backend's name."""
    cls, make, name, token = FAMILIES[family]
    theirs = make()
    theirs.save_pretrained(folder)
    path = folder / "processor_config.json"
    settings = json.loads(path.read_text())
    settings["image_processor"]["image_processor_type"] = name + MODES[mode]
    path.write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"image_token_id": theirs.image_token_id}))
    part = dict(settings["image_processor"])
    part.pop("image_processor_type")
    theirs.image_processor = getattr(transformers, name + MODES[mode])(**part)
    assert theirs.image_processor.backend == str(mode)
    return cls(ModelSource(family, folder)), theirs, token


@pytest.mark.parity
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES)
def test_pictures_and_prompts_are_bit_equal(transformers, tmp_path, family, mode):
    """One at a time and together, with words between and without."""
    ours, theirs, token = made(transformers, family, mode, tmp_path)
    items = pictures()
    cases = [(f"a {token} b", [one]) for one in items] + [(token * 3, items[:3]), (f"{token} x {token}", items[3:5])]
    different = []

    for text, several in cases:
        expected = theirs(text=[text], images=[Pillow.fromarray(one) for one in several], return_tensors="np")
        ids = theirs.tokenizer(text).input_ids
        output = testing.run_processor(ours, [testing.image(one) for one in several], input_ids=ids)
        pixels = np.asarray(expected["pixel_values"])
        tiles = [item.feature.array for item in output.items]
        if family == "llava-next":
            assert [item.model_specific["image_sizes"] for item in output.items] == expected["image_sizes"].tolist()
            pixels = np.concatenate([one[: len(tile)] for one, tile in zip(pixels, tiles, strict=True)])
        same = np.concatenate(tiles).tobytes() == pixels.tobytes()
        if not same or output.input_ids.tolist() != expected["input_ids"][0].tolist():
            different.append([one.shape for one in several])
        covered = [at for item in output.items for span in item.spans for at in range(span.first, span.last + 1)]
        assert covered == np.flatnonzero(output.input_ids == theirs.image_token_id).tolist()

    assert different == []


@pytest.mark.parity
@pytest.mark.parametrize("family", FAMILIES)
def test_tiles_and_tokens_are_those_of_the_reference_for_any_size(transformers, tmp_path, family):
    """The rule by itself, over many more sizes than can be computed."""
    ours, theirs, _ = made(transformers, family, Resample.TORCHVISION, tmp_path)
    rng = np.random.default_rng(0)
    sizes = [size for size in np.exp(rng.uniform(0, np.log(5000), (SEEDED, 2))).astype(int).tolist()
             if max(size) <= 200 * min(size)]  # fmt: skip

    expected = theirs._get_num_multimodal_tokens(sizes)["num_image_tokens"]

    marks = 2 * (family == "internvl")  # which the reference counts
    got = [ours._tokens(height, width, ours._canvas(height, width)) + marks for height, width in sizes]
    assert [size for size, one, other in zip(sizes, got, expected, strict=True) if one != other] == []


def test_equally_near_grids_grow_with_the_picture():
    """A square fits one tile and four alike: the larger grid is taken where it is more than half filled."""
    assert canvas_by_shape(56, 56, (56, 56), 1, 6).tiles == 1
    assert canvas_by_shape(100, 100, (56, 56), 1, 6).tiles == 2 * 2 + 1


def test_a_picture_keeps_its_shape_within_its_tiles():
    canvas = canvas_of_pinpoints(300, 200, SIDE, [tuple(one) for one in PINPOINTS])

    assert (canvas.rows, canvas.columns, canvas.tiles) == (2, 2, 5)
    assert (canvas.height, canvas.width) == (112, 75)


@pytest.mark.parity
def test_marks_stand_around_a_picture_and_carry_nothing(transformers, tmp_path):
    ours, theirs, _ = made(transformers, "internvl", Resample.TORCHVISION, tmp_path)

    output = testing.check_processor(ours, [testing.image(noise(56, 56))], input_ids=[9, theirs.image_token_id, 8])

    inside = [theirs.image_token_id] * 4
    assert output.input_ids.tolist() == [9, theirs.start_image_token_id, *inside, theirs.end_image_token_id, 8]
    assert output.items[0].spans == (Span(2, 5),)


@pytest.mark.parity
def test_a_picture_too_thin_is_refused(transformers, tmp_path):
    ours, theirs, _ = made(transformers, "llava-next", Resample.TORCHVISION, tmp_path)

    with pytest.raises(Rejected) as caught:
        testing.run_processor(ours, [testing.image(noise(1, 201))], input_ids=[theirs.image_token_id])

    assert caught.value.code == "aspect_ratio"


@pytest.mark.parametrize(
    ("cls", "kind", "settings", "named"),
    [
        (
            InternVL,
            "GotOcr2ImageProcessor",
            {"min_patches": 5, "max_patches": 4, "crop_to_patches": True},
            "max_patches",
        ),
        (InternVL, "GotOcr2ImageProcessor", {"size": {"shortest_edge": 5}}, "size"),
        (InternVL, "CLIPImageProcessor", {}, "image_processor_type"),
        (LlavaNext, "LlavaNextImageProcessor", {"size": {"shortest_edge": 100}}, "size"),
        (LlavaNext, "LlavaNextImageProcessor", {"image_grid_pinpoints": [[100, 224]]}, "image_grid_pinpoints"),
        (LlavaNext, "LlavaNextImageProcessor", {"image_grid_pinpoints": []}, "image_grid_pinpoints"),
        (LlavaNext, "LlavaNextImageProcessor", {"do_rescale": False}, "do_rescale"),
    ],
)
def test_a_setting_that_is_not_done_is_refused_by_its_key(tmp_path, cls, kind, settings, named):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": kind, **settings}))

    with pytest.raises(ConfigurationError, match=named):
        cls(ModelSource("any", tmp_path))
