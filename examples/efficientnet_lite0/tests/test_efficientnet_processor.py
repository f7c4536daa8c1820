"""The processor held to the contract, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from forebay_efficientnet_lite0.picture import middle_square
from forebay_efficientnet_lite0.processor import EfficientNetLite0Processor

from forebay import DType, Modality, Rejected, Span
from forebay.plugins import load_processor
from forebay.testing import audio, check_processor, image, run_processor


@pytest.fixture
def processor(model):
    return EfficientNetLite0Processor(model)


def plain(height, width, value):
    return image(np.full((height, width, 3), value))


def test_the_processor_is_found_by_the_models_name(model):
    """The entry point is all that connects the package to Forebay."""
    loaded = load_processor(model)

    assert isinstance(loaded.processor, EfficientNetLite0Processor)
    assert not loaded.capabilities.needs_prompt_tokens


def test_each_image_becomes_one_feature_and_one_token(processor, photograph):
    """The tokens stand in the order of the images."""
    output = check_processor(processor, [photograph("chelsea.png"), photograph("coffee.png")])

    assert output.input_ids.tolist() == [0, 0]
    assert [item.spans for item in output.items] == [(Span(0, 0),), (Span(1, 1),)]
    assert [item.modality for item in output.items] == [Modality.IMAGE, Modality.IMAGE]
    assert [(item.feature.shape, item.feature.dtype) for item in output.items] == [((3, 224, 224), DType.FLOAT32)] * 2


@pytest.mark.parametrize(("value", "expected"), [(0, -0.9921875), (127, 0.0), (255, 1.0)])
def test_values_are_brought_near_one_as_the_model_was_trained(processor, value, expected):
    """(value - 127) / 128, the same for every channel."""
    output = run_processor(processor, [plain(8, 8, value)])

    assert np.unique(output.items[0].feature.array).tolist() == [expected]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 900), (224, 224), (301, 7), (720, 1280)])
def test_an_image_of_any_shape_has_the_same_feature_size(processor, height, width):
    """What ``feature_bytes`` reserves is what ``process`` writes."""
    picture = plain(height, width, 50)

    output = run_processor(processor, [picture])

    assert processor.feature_bytes(picture) == output.items[0].feature.size_bytes == 3 * 224 * 224 * 4


def test_the_middle_square_leaves_equal_borders():
    """Of a 2 by 5 picture the columns 1 and 2 remain: the odd column goes to the right."""
    pixels = np.arange(10, dtype=np.uint8).reshape(2, 5, 1)

    square = middle_square(pixels)

    assert square[..., 0].tolist() == [[1, 2], [6, 7]]


def test_an_image_of_the_right_size_is_only_scaled(processor):
    """Channels come first; no pixel moves and none is interpolated."""
    pixels = np.random.default_rng(3).integers(0, 256, (224, 224, 3), dtype=np.uint8)

    output = run_processor(processor, [image(pixels)])

    expected = (pixels.transpose(2, 0, 1).astype(np.float32) - 127) / 128
    np.testing.assert_array_equal(output.items[0].feature.array, expected)


def test_pixels_that_may_not_be_written_are_read_all_the_same(processor):
    """Decoded media may lie in memory shared with others."""
    picture = plain(224, 224, 127)
    picture.pixels.flags.writeable = False

    output = run_processor(processor, [picture])

    assert not output.items[0].feature.array.any()


def test_a_request_without_an_image_is_refused(processor):
    """The count found and the counts allowed are both in the message."""
    with pytest.raises(Rejected, match="the request has 0 images; this model takes 1 to 8") as refusal:
        run_processor(processor, [], text="What is this?")

    assert (refusal.value.code, refusal.value.param) == ("missing_image", "image_data")


@pytest.mark.parametrize(
    ("media", "code"),
    [
        ([plain(8, 8, 0)] * 9, "too_many_items"),
        ([audio(np.zeros(160))], "unsupported_modality"),
    ],
)
def test_nine_images_or_a_recording_are_refused(processor, media, code):
    """The declared capabilities are what the flow enforces."""
    with pytest.raises(Rejected) as refusal:
        run_processor(processor, media)

    assert refusal.value.code == code


def test_looking_the_model_up_loads_no_torch():
    """A worker's parent imports every package it is asked for, and forks afterwards."""
    modules = "forebay_efficientnet_lite0.processor, forebay_efficientnet_lite0.engine"
    code = f"import sys, {modules}; print('torch' in sys.modules)"

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "False"
