"""Text that grows by tokens and never shows half a character."""

from __future__ import annotations

import numpy as np
import pytest
from forebay_whisper_tiny_en.files import model_files
from forebay_whisper_tiny_en.tokens import END_OF_TEXT
from forebay_whisper_tiny_en.transcript import Transcript
from forebay_whisper_tiny_en.vocabulary import read_vocabulary
from tokenizers import Tokenizer

from forebay import ConfigurationError, ModelSource

VOCABULARY = (b" a", b"\xf0\x9f", b"\x98\x80", b"  b", b" ")


def pieces(tokens):
    transcript = Transcript(VOCABULARY)
    return [*(transcript.add(token) for token in tokens), transcript.end()]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([0, 0], ["a", " a", ""]),
        ([4, 3, 3], ["", "b", "  b", ""]),
        ([0, 1, 2, 0], ["a", "", "😀", " a", ""]),
        ([0, 1], ["a", "", "\ufffd"]),
        ([1, 0], ["", "\ufffd a", ""]),
        ([], [""]),
    ],
)
def test_a_character_is_shown_when_it_is_complete(tokens, expected):
    """An emoji over two tokens waits for the second; one never finished becomes a replacement character."""
    assert pieces(tokens) == expected


@pytest.mark.parity
def test_any_tokens_join_to_the_text_of_the_tokenizer(model):
    """Byte by byte, what was streamed is what the whole would have been decoded to."""
    files = model_files(model)
    vocabulary, tokenizer = read_vocabulary(files), Tokenizer.from_file(str(files.file("tokenizer.json")))
    random = np.random.default_rng(11)

    for _ in range(50):
        tokens = random.integers(0, END_OF_TEXT, 40).tolist()
        transcript = Transcript(vocabulary)
        streamed = "".join([*map(transcript.add, tokens), transcript.end()])

        assert streamed == tokenizer.decode(tokens).lstrip(" ")


def test_a_vocabulary_that_is_not_spelled_in_bytes_is_refused(tmp_path):
    """A tokenizer of another kind has letters that stand for no byte."""
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": {"▁the": 0}}}', encoding="utf-8")

    with pytest.raises(ConfigurationError, match="not a byte-level vocabulary"):
        read_vocabulary(ModelSource("whisper-tiny-en", tmp_path))
