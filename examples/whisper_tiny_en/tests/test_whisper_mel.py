"""The log-mel features against the reference implementation."""

from __future__ import annotations

import numpy as np
import pytest
from forebay_whisper_tiny_en import mel
from forebay_whisper_tiny_en.mel import LogMel, mel_filters
from transformers import WhisperFeatureExtractor
from transformers.audio_utils import spectrogram


def features(samples):
    out = np.full((mel.BANDS, mel.FRAMES), np.nan, dtype=np.float32)
    LogMel().write(samples, out)
    return out


def reference(samples):
    """What transformers computes with NumPy, in double precision."""
    extractor = WhisperFeatureExtractor()
    waveform = np.pad(samples, (0, mel.SAMPLES - len(samples)))
    power = {"power": 2.0, "mel_filters": extractor.mel_filters, "log_mel": "log10"}
    log = spectrogram(waveform, np.hanning(401)[:-1], frame_length=400, hop_length=160, **power)[:, :-1]
    return (np.maximum(log, log.max() - 8.0) + 4.0) / 4.0


def noise(samples):
    return np.random.default_rng(7).normal(0, 0.1, samples).astype(np.float32)


@pytest.mark.parity
def test_the_filters_are_those_of_the_reference():
    """Eighty Slaney filters over 201 bins."""
    expected = WhisperFeatureExtractor().mel_filters

    filters = mel_filters()

    np.testing.assert_allclose(filters, expected, atol=1e-15)


@pytest.mark.parity
@pytest.mark.parametrize("samples", [1, 159, 160, 201, 32_000, 479_600, 479_601, 479_999, 480_000])
def test_a_recording_of_any_length_has_the_features_of_the_reference(samples):
    """Where the recording ends, silence and mirrored samples begin; both are counted as the reference counts them."""
    recording = noise(samples)

    computed = features(recording)

    np.testing.assert_allclose(computed, reference(recording), atol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("name", ["quick_brown_fox", "counting", "hello_world"])
def test_speech_has_the_features_of_the_reference(clip, name):
    """Speech is quiet beside loud, which is where precision shows."""
    recording = clip(name)

    computed = features(recording)

    np.testing.assert_allclose(computed, reference(recording), atol=1e-6)


@pytest.mark.parity
def test_speech_has_the_features_of_the_whole_extractor(clip):
    """The extractor itself computes in single precision, and so is 1.1e-5 away from its own NumPy reference."""
    recording = clip("quick_brown_fox")
    expected = WhisperFeatureExtractor()(recording, sampling_rate=16_000, return_tensors="np").input_features[0]

    computed = features(recording)

    np.testing.assert_allclose(computed, expected, atol=2e-5)


def test_silence_is_one_value_everywhere():
    """Digital silence lies at the floor, 1e-10, which is -10 decades and scales to -1.5."""
    recording = np.zeros(16_000, dtype=np.float32)

    computed = features(recording)

    np.testing.assert_allclose(computed, -1.5, atol=1e-6)
