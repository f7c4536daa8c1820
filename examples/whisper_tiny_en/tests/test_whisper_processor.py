"""The processor held to the contract, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from forebay_whisper_tiny_en.processor import WhisperTinyEnProcessor

from forebay import DType, Modality, Rejected, Span
from forebay.plugins import load_processor
from forebay.testing import audio, check_processor, image, run_processor


@pytest.fixture
def processor(model):
    return WhisperTinyEnProcessor(model)


def silence(samples):
    return audio(np.zeros(samples, dtype=np.float32))


def test_the_processor_is_found_by_the_models_name(model):
    """The entry point is all that connects the package to Forebay."""
    loaded = load_processor(model)

    assert isinstance(loaded.processor, WhisperTinyEnProcessor)
    assert loaded.capabilities.audio_rate_hz == 16_000


def test_speech_becomes_one_feature_and_the_decoders_prompt(processor, clip):
    """The recording's own token comes first; the decoder begins after the other two."""
    output = check_processor(processor, [audio(clip("quick_brown_fox"))])

    (item,) = output.items
    assert output.input_ids.tolist() == [51864, 50257, 50362]
    assert (item.modality, item.spans, item.tokens) == (Modality.AUDIO, (Span(0, 0),), 1)
    assert (item.feature.shape, item.feature.dtype) == ((80, 3000), DType.FLOAT32)


def test_the_room_asked_for_beforehand_is_the_room_taken(processor):
    """What ``feature_bytes`` reserves is what ``process`` writes."""
    recording = silence(16_000)

    output = run_processor(processor, [recording])

    assert processor.feature_bytes(recording) == output.items[0].feature.size_bytes == 960_000


def test_a_prompt_makes_no_difference(processor):
    """The model is told nothing but the recording."""
    output = run_processor(processor, [silence(16_000)], text="Please transcribe this.")

    assert output.input_ids.tolist() == [51864, 50257, 50362]


def test_thirty_seconds_are_taken(processor):
    """The limit itself is within the limit."""
    output = run_processor(processor, [silence(480_000)])

    assert output.items[0].tokens == 1


def test_one_sample_more_than_thirty_seconds_is_refused_with_both_lengths(processor):
    """Nothing is cut off behind the caller's back."""
    with pytest.raises(Rejected) as refusal:
        run_processor(processor, [silence(480_001)])

    assert refusal.value.code == "audio_too_long"
    assert refusal.value.message == ("the audio is 30.00 s long (480001 samples); the limit is 30 s (480000 samples)")


def test_empty_audio_is_refused(processor):
    """A recording without a sample has no features."""
    with pytest.raises(Rejected, match="empty audio") as refusal:
        run_processor(processor, [silence(0)])

    assert refusal.value.code == "empty_audio"


def test_a_request_without_audio_is_refused(processor):
    """The count found and the count needed are both in the message."""
    with pytest.raises(Rejected, match="the request has 0 recordings; this model takes 1") as refusal:
        run_processor(processor, [], text="Hello?")

    assert (refusal.value.code, refusal.value.param) == ("missing_audio", "audio_data")


@pytest.mark.parametrize(
    ("media", "code"),
    [
        ([silence(160), silence(160)], "too_many_items"),
        ([image(np.zeros((8, 8, 3)))], "unsupported_modality"),
    ],
)
def test_two_recordings_or_an_image_are_refused(processor, media, code):
    """The declared capabilities are what the flow enforces."""
    with pytest.raises(Rejected) as refusal:
        run_processor(processor, media)

    assert refusal.value.code == code


def test_looking_the_model_up_loads_no_torch():
    """A worker's parent imports every package it is asked for, and forks afterwards."""
    code = (
        "import sys, forebay_whisper_tiny_en.processor, forebay_whisper_tiny_en.engine; print('torch' in sys.modules)"
    )

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "False"
