"""Recordings within 1e-5 of Hugging Face's feature extractor, and the tokens that stand for them."""

import json

import numpy as np
import pytest

from forebay import ConfigurationError, ModelSource, Rejected, Span, testing
from processors.log_mel import Qwen2Audio, Whisper
from tests.support.hf_folders import qwen2_audio, whisper

TOLERANCE = 1e-5
SECONDS = [0.0201, 0.1, 0.5, 1.0, 2.37, 7.0, 29.999, 30.0]
KINDS = ("noise", "tone", "quiet beside loud", "silence")


def recording(kind: str, seconds: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    times = np.arange(int(seconds * 16_000)) / 16_000
    if kind == "noise":
        return rng.normal(0, 0.2, len(times)).astype(np.float32)
    if kind == "tone":
        return np.sin(2 * np.pi * 440 * times).astype(np.float32)
    if kind == "silence":
        return np.zeros(len(times), np.float32)
    quiet = 1e-3 * rng.normal(0, 1, len(times))
    return (quiet + (times > seconds / 2) * np.sin(2 * np.pi * 3000 * times)).astype(np.float32)


def folder_of(theirs, folder, **config):
    theirs.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def listener(transformers, tmp_path_factory):
    theirs = qwen2_audio()
    folder = folder_of(theirs, tmp_path_factory.mktemp("qwen2-audio"), audio_token_index=theirs.audio_token_id)
    return Qwen2Audio(ModelSource("qwen2-audio", folder)), theirs


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_whispers_features_are_within_the_tolerance(transformers, tmp_path, kind):
    """Of every length up to all that is heard."""
    theirs = whisper()
    ours = Whisper(ModelSource("whisper", folder_of(theirs, tmp_path)))

    for number, seconds in enumerate(SECONDS):
        samples = recording(kind, seconds, number)
        expected = theirs.feature_extractor(samples, sampling_rate=16_000, return_tensors="np")["input_features"][0]
        output = testing.run_processor(ours, [testing.audio(samples)], input_ids=[5, 6])

        assert output.input_ids.tolist() == [0, 5, 6]
        assert output.items[0].feature.array.shape == expected.shape == (80, 3000)
        assert np.abs(output.items[0].feature.array - expected).max() <= TOLERANCE


@pytest.mark.parity
def test_qwen2_audio_expands_a_recording_by_its_length(listener):
    """Ids, features and lengths of the whole processor, for several at once and without a word between."""
    ours, theirs = listener
    recordings = [recording("noise", seconds, number) for number, seconds in enumerate(SECONDS)]
    text = "First <|AUDIO|>" + "<|AUDIO|>" * (len(recordings) - 1) + " what differs?"

    expected = theirs(text=[text], audio=recordings, sampling_rate=16_000, return_tensors="np")
    items = [testing.audio(one) for one in recordings]
    output = testing.run_processor(ours, items, input_ids=theirs.tokenizer(text).input_ids)

    assert output.input_ids.tolist() == expected["input_ids"][0].tolist()
    features = np.stack([item.feature.array for item in output.items])
    assert np.abs(features - expected["input_features"]).max() <= TOLERANCE
    lengths = expected["feature_attention_mask"].sum(-1).tolist()
    assert [item.model_specific["feature_frames"] for item in output.items] == lengths


@pytest.mark.parity
def test_tokens_follow_the_length_to_the_sample(listener):
    """Around every step from one token to the next."""
    ours, theirs = listener
    counts = [*range(321, 2500, 79), 640, 641, 960, 961, 480_000]
    for samples in counts:
        audio = theirs._process_audio([np.zeros(samples, np.float32)], sampling_rate=16_000)
        planned = ours.plan_item(testing.audio(np.zeros(samples)))

        assert planned.tokens == audio[1][0].count(theirs.audio_token), samples


@pytest.mark.parity
def test_a_recording_that_would_have_no_token_is_refused(listener):
    """The reference gives it none, and its features would stand behind nothing."""
    ours, _ = listener
    for samples in (0, 1, 320):
        with pytest.raises(Rejected) as caught:
            ours.plan_item(testing.audio(np.zeros(samples)))
        assert caught.value.code == "audio_too_short"
        assert str(samples) in caught.value.message
    assert ours.plan_item(testing.audio(np.zeros(321))).tokens == 1


@pytest.mark.parity
def test_a_recording_that_would_be_cut_is_refused(listener):
    ours, theirs = listener

    with pytest.raises(Rejected) as caught:
        testing.run_processor(ours, [testing.audio(np.zeros(480_001))], input_ids=[theirs.audio_token_id])

    assert (caught.value.code, caught.value.param) == ("audio_too_long", "audio_data[0]")
    assert "480001" in caught.value.message


@pytest.mark.parity
def test_both_keep_to_the_contract(listener, tmp_path):
    ours, theirs = listener
    items = [testing.audio(recording("noise", 1.0)), testing.audio(recording("tone", 0.5))]
    testing.check_processor(ours, items, input_ids=[theirs.audio_token_id, 5, theirs.audio_token_id])
    alone = Whisper(ModelSource("whisper", folder_of(whisper(), tmp_path)))

    output = testing.check_processor(alone, items[:1], text="")

    assert (output.input_ids.tolist(), output.items[0].spans) == ([0], (Span(0, 0),))
    with pytest.raises(Rejected):
        testing.run_processor(alone, [], text="")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("feature_extractor_type", "SeamlessM4TFeatureExtractor"),
        ("dither", 0.1),
        ("do_normalize", True),
        ("feature_size", 0),
        ("padding_value", 1.0),
        ("mel_scale", "htk"),
    ],
)
def test_a_setting_that_is_not_done_is_refused_by_its_key(tmp_path, key, value):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({key: value}))

    with pytest.raises(ConfigurationError, match=key):
        Whisper(ModelSource("whisper", tmp_path))
