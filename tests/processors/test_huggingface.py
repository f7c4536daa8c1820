"""Any Hugging Face folder: what its own processor gives, bit for bit, taken apart by items."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forebay import ConfigurationError, Failed, ModelSource, Rejected, Span, Work, testing
from processors.huggingface import HuggingFace, named_tensors
from processors.huggingface.split import is_part_of, parts_of, spans_of
from processors.huggingface.tensors import MOST_NUMBERS, carry
from tests.processors.hf_cases import compare_folder, pictures, recordings
from tests.support.hf_folders import FAMILIES, make_folder

pytestmark = pytest.mark.parity
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folders(transformers, tmp_path_factory):
    """Each family's folder, made once."""
    root = tmp_path_factory.mktemp("folders")
    return {family: make_folder(family, root / family) for family in FAMILIES}


@pytest.fixture(scope="module")
def load(folders):
    made = {}

    def processor(family: str) -> HuggingFace:
        if family not in made:
            made[family] = HuggingFace(ModelSource("transformers", folders[family]))
        return made[family]

    return processor


def refused(processor, media, **prompt):
    with pytest.raises(Rejected) as caught:
        testing.run_processor(processor, media, **prompt)
    return caught.value


def test_a_picture_that_is_a_line_is_refused(load):
    """A hundred bytes of PNG, and gigabytes once its shorter side has a model's size."""
    thin = testing.image(np.zeros((1, 201, 3), np.uint8))

    error = refused(load("clip"), [thin], text="x")

    assert error.code == "aspect_ratio"
    assert error.message == "aspect ratio must be at most 200, got 201"
    assert testing.run_processor(load("clip"), [testing.image(np.zeros((1, 200, 3), np.uint8))], text="x").items


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_gives_what_its_own_processor_gives(folders, family):
    """Ids, every named tensor, and spans that are exactly the tokens with features behind them."""
    compared = compare_folder(folders[family])

    assert [(one.name, one.differences) for one in compared if one.differences] == []
    assert len(compared) >= 9
    assert {one.backend for one in compared} == ({"numpy"} if family in ("whisper", "qwen2-audio") else {"torchvision"})


def test_without_torchvision_pillow_resizes_and_videos_alone_are_missing(folders):
    """In a process of its own, as a worker is: families with a video part load without it."""
    asked = [str(folders[family]) for family in ("llava", "internvl", "llava-onevision", "idefics3")]
    program = [sys.executable, "-m", "tests.processors.hf_cases", *asked]

    done = subprocess.run(program, cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert list(found) == asked
    for folder, cases in found.items():
        assert [case for case in cases if case[2]] == [], folder
        assert {case[1] for case in cases} == {"pil"}


@pytest.mark.parametrize(
    ("family", "token"), [("llava", "<image>"), ("idefics3", "<image>"), ("internvl", "<IMG_CONTEXT>")]
)
def test_ids_become_what_the_text_becomes(load, family, token):
    """A caller that tokenizes for itself, or a conversation that the host has rendered, gets the same prompt."""
    processor, items = load(family), pictures()[:2]
    text = f"First {token} and then {token}, what differs?"
    ids = processor._caller.tokenizer(text).input_ids

    by_text = testing.run_processor(processor, items, text=text)
    by_ids = testing.run_processor(processor, items, input_ids=ids)

    assert by_ids.input_ids.tolist() == by_text.input_ids.tolist()
    for one, other in zip(by_ids.items, by_text.items, strict=True):
        assert one.spans == other.spans
        assert np.array_equal(one.feature.array, other.feature.array)
        assert one.model_specific == other.model_specific


def test_a_prompt_of_ids_may_have_no_item(load):
    output = testing.run_processor(load("llava"), [], input_ids=[5, 6, 7])

    assert (output.input_ids.tolist(), output.items) == ([5, 6, 7], ())


def test_a_processor_keeps_to_the_contract(load):
    """The same twice, and nothing of a request is overwritten by the next."""
    testing.check_processor(load("idefics3"), pictures()[:2], text="<image> and <image>")
    testing.check_processor(load("qwen2-audio"), recordings()[:2], text="<|AUDIO|> and <|AUDIO|>")


def test_another_number_of_placeholders_is_refused_with_both(load):
    error = refused(load("llava"), pictures()[:1], text="<image> and <image>")

    assert (error.code, error.param) == ("placeholder_mismatch", "image_data")
    assert "2 image placeholders (<image>)" in error.message
    assert "the request has 1" in error.message
    assert refused(load("llava"), [], text="<image>").code == "placeholder_mismatch"
    assert refused(load("llava"), pictures()[:2], input_ids=[5]).code == "placeholder_mismatch"


def test_a_token_that_features_stand_behind_is_no_word_of_a_caller(load):
    """Gemma's prompts hold another token than its expanded ones: spelled out, it would shift every span."""
    error = refused(load("gemma3"), pictures()[:1], text="<start_of_image> <image_soft_token>")

    assert error.code == "placeholder_mismatch"
    assert "5 tokens" in error.message


def test_what_a_family_refuses_is_the_callers_to_mend(load):
    """PaliGemma takes no text alone."""
    error = refused(load("paligemma"), [], text="What is this?")

    assert error.code == "invalid_media"
    assert "images" in error.message


def test_what_a_family_does_not_take_is_refused_by_name(load):
    assert refused(load("llava"), recordings()[:1], text="a").code == "unsupported_modality"
    assert refused(load("whisper"), pictures()[:1], text="a").code == "unsupported_modality"


def test_a_recording_is_refused_where_the_reference_would_cut_it(load):
    error = refused(load("whisper"), [testing.audio(np.zeros(480_001))], text="a")

    assert error.code == "audio_too_long"
    assert "480001" in error.message
    assert "480000" in error.message


def test_a_recording_without_a_token_is_refused(load):
    """Qwen2-Audio gives 20 ms none."""
    error = refused(load("qwen2-audio"), [testing.audio(np.zeros(320))], text="<|AUDIO|>")

    assert (error.code, error.param) == ("audio_too_short", "audio_data[0]")


def test_ids_outside_the_vocabulary_are_refused(load):
    assert refused(load("llava"), [], input_ids=[99_999]).code == "invalid_token_id"


def test_a_model_without_a_folder_is_refused(transformers):
    with pytest.raises(ConfigurationError, match="was given no folder"):
        HuggingFace(ModelSource("transformers"))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"processor_class": "TheirProcessor", "auto_map": {"AutoProcessor": "code.TheirProcessor"}},
    ],
    ids=["nothing", "code of its own"],
)
def test_a_folder_that_loads_no_processor_is_refused_by_its_path(transformers, tmp_path, config):
    """And code that it brings is not run."""
    (tmp_path / "processor_config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\nclass TheirProcessor: pass\n")

    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        HuggingFace(ModelSource("transformers", tmp_path))

    assert not (tmp_path / "was_run").exists()


def test_an_image_processor_and_a_tokenizer_are_enough(transformers, tmp_path):
    """A folder that names no class that binds them: items go with the first tokens, one each."""
    from tests.support.hf_folders import tokenizer

    tokenizer().save_pretrained(tmp_path)
    transformers.ViTImageProcessor(size={"height": 56, "width": 56}).save_pretrained(tmp_path)
    processor = HuggingFace(ModelSource("transformers", tmp_path))

    output = testing.run_processor(processor, pictures()[:2], text="What is this?")

    assert [item.feature.shape for item in output.items] == [(1, 3, 56, 56)] * 2
    assert [item.spans for item in output.items] == [(Span(0, 0),), (Span(1, 1),)]


def test_a_fingerprint_names_versions_and_settings(load):
    config = load("llava").config()

    assert config["versions"]["transformers"] == "5.24.0"
    assert config["settings"][0]["crop_size"] == {"height": 56, "width": 56}
    assert json.loads(json.dumps(config)) == config
    assert load("llava").config() != load("llava-next").config()


def test_rows_that_cannot_be_told_apart_are_not_guessed():
    """Three rows for items of one and four tokens."""
    with pytest.raises(Failed, match="whose rows are whose"):
        parts_of("pixels", np.zeros((3, 2)), [1, 4])

    assert [part.shape for part in parts_of("pixels", np.zeros((1, 5, 2)), [4, 16])] == [(1, 1, 2), (1, 4, 2)]


def test_padding_is_of_one_value_and_behind():
    alone, part = np.ones((1, 2)), np.array([[1.0, 1.0, 0.0, 0.0]])

    assert is_part_of(alone, part)
    assert not is_part_of(alone, np.array([[1.0, 1.0, 0.0, 5.0]]))
    assert not is_part_of(alone, np.array([[0.0, 1.0, 1.0, 0.0]]))


def test_spans_are_cut_by_counts_and_by_gaps():
    ids = np.array([9, 9, 9, 1, 9, 2], np.int64)

    assert spans_of(ids, 9, [2, 2], "image_data") == [(Span(0, 1),), (Span(2, 2), Span(4, 4))]


def test_tensors_come_back_as_they_were():
    """The largest is the feature; a mask travels as runs; each has its dtype and shape again."""
    tensors = {
        "pixel_values": np.arange(12, dtype=np.float32).reshape(1, 3, 4),
        "pixel_attention_mask": np.tile(np.array([True] * 400 + [False] * 100), 20).reshape(20, 500),
        "image_sizes": np.array([[3, 4]]),
        "scale": np.array([0.1, 1e-30], np.float32),
    }

    feature, told = carry(tensors, Work("r", None))
    back = named_tensors(feature.array, told)

    assert {name: (array.dtype, array.shape) for name, array in back.items()} == {
        name: (array.dtype, array.shape) for name, array in tensors.items()
    }
    assert all(np.array_equal(back[name], array) for name, array in tensors.items())


def test_a_second_large_tensor_is_refused_by_name():
    noisy = np.random.default_rng(0).integers(0, 9, MOST_NUMBERS + 1)

    with pytest.raises(Failed, match="noisy of 4097 numbers"):
        carry({"pixels": np.zeros((2, 2), np.float32), "noisy": noisy}, Work("r", None))
