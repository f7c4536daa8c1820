"""The recorded values of the original: ids, spans, grids, positions, resized bytes and features."""

import numpy as np
import pytest

from forebay import ModelSource
from forebay.testing import run_processor
from processors.pixels.modes import Resample
from processors.pixels.resize import resize
from processors.qwen_vl import Qwen2VL, Qwen3VL
from processors.qwen_vl.settings import Settings
from tests.processors.pictures import as_image, sha256, with_pillow

CASES = 13


@pytest.fixture(scope="module")
def processors():
    return {14: Qwen2VL(ModelSource("qwen2-vl")), 16: Qwen3VL(ModelSource("qwen3-vl"))}


@pytest.fixture(scope="module")
def pil_processors():
    """The same families, in the other mode."""
    return {14: with_pillow(Qwen2VL)(ModelSource("qwen2-vl")), 16: with_pillow(Qwen3VL)(ModelSource("qwen3-vl"))}


def asks_for(spec: dict, settings: Settings) -> bool:
    """Whether a recorded case was made with a processor's own settings."""
    geometry, normalisation = settings.geometry, settings.normalisation
    return (
        (spec["patch_size"], spec["merge_size"], spec["temporal_patch_size"], spec["min_pixels"], spec["max_pixels"])
        == (geometry.patch, geometry.merge, geometry.temporal, geometry.min_pixels, geometry.max_pixels)
        and (tuple(spec["image_mean"]), tuple(spec["image_std"])) == (normalisation.mean, normalisation.std)
        and spec["image_token_id"] == settings.special.image_pad
    )


def test_every_recorded_case_is_here(golden):
    """A case that is not read is a case that is not kept."""
    assert len(golden.cases) == len(golden.pil_cases) == CASES


@pytest.mark.parametrize("number", range(CASES))
def test_a_recorded_case_comes_out_bit_for_bit(golden, processors, number):
    """From the same pixels: the same prompt, spans, grid, positions and float32 bytes."""
    case = golden.cases[number]
    processor = processors[case["spec"]["patch_size"]]
    pictures = [as_image(golden.pixels(name)) for name in case["images"]]

    output = run_processor(processor, pictures, input_ids=case["input_ids"])

    assert asks_for(case["spec"], processor.settings)
    assert case["out_input_ids"] in (None, output.input_ids.tolist())  # long ones are recorded as a digest only
    assert len(output.input_ids) == case["out_len"]
    assert sha256(output.input_ids) == case["out_ids_i64le_sha256"]
    assert case["mrope"] in (None, output.positions.mrope.tolist())
    assert sha256(output.positions.mrope) == case["mrope_i64le_sha256"]
    assert output.positions.delta == case["mrope_delta"]
    assert len(output.items) == len(case["items"])
    for item, recorded in zip(output.items, case["items"], strict=True):
        assert [[span.first, span.last] for span in item.spans] == [recorded["offset_inclusive"]]
        assert item.model_specific == {"image_grid_thw": recorded["grid_thw"]}
        assert list(item.feature.shape) == recorded["feature"]["shape"]
        assert item.feature.dtype == recorded["feature"]["dtype"]
        assert item.feature.array.reshape(-1)[:8].tolist() == recorded["feature"]["first8"]
        assert item.feature.array.reshape(-1)[-8:].tolist() == recorded["feature"]["last8"]
        assert sha256(item.feature.array) == recorded["feature"]["sha256"]


@pytest.mark.parametrize("number", range(CASES))
def test_a_recorded_case_of_the_other_mode_comes_out_bit_for_bit(golden, pil_processors, number):
    """As Pillow resizes. The recording is of Pillow 12, whose order of passes differs where a picture becomes wider
    and lower: there only the prompt and the grid are held.
    """
    case = golden.pil_cases[number]
    processor = pil_processors[case["spec"]["patch_size"]]
    pictures = [as_image(golden.pixels(name)) for name in case["images"]]

    output = run_processor(processor, pictures, input_ids=case["input_ids"])

    assert asks_for(case["spec"], processor.settings)
    assert sha256(output.input_ids) == case["out_ids_i64le_sha256"]
    for picture, item, recorded in zip(pictures, output.items, case["items"], strict=True):
        height, width = recorded["resized_hw"]
        assert item.model_specific == {"image_grid_thw": recorded["grid_thw"]}
        if width > picture.width and height < picture.height:
            continue
        resized = resize(picture.pixels, height, width, Resample.PIL)
        assert sha256(resized) == recorded["resized_u8_sha256"]
        assert sha256(item.feature.array) == recorded["feature"]["sha256"]


@pytest.mark.parametrize("number", range(CASES))
def test_a_recorded_picture_is_resized_byte_for_byte(golden, number):
    """The stage before normalisation, by itself."""
    for recorded in golden.cases[number]["items"]:
        pixels = golden.pixels(recorded["input"])

        resized = resize(pixels, *recorded["resized_hw"])

        assert resized.dtype == np.uint8
        assert sha256(resized) == recorded["resized_u8_sha256"]


def test_the_pixels_we_start_from_are_the_recorded_ones(golden):
    """A decoder that changed would be found here, not in the features."""
    names = {name for case in golden.cases for name in case["images"]}

    wrong = [name for name in names if sha256(golden.pixels(name)) != golden.decoded[name]["decoded_rgb_sha256"]]

    assert wrong == []
