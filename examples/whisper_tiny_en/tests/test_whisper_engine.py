"""The real model, from recording to text."""

from __future__ import annotations

import gc
import weakref

import pytest
from forebay_whisper_tiny_en.engine import MOST_REQUESTS, WhisperTinyEnEngine
from forebay_whisper_tiny_en.processor import WhisperTinyEnProcessor

from forebay import Admission, AdmittedItem, Rejected, Room
from forebay.plugins import engine_class
from forebay.testing import audio, run_processor

FOX = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(scope="module")
def admit(model, clip):
    """Process a clip as a worker would and hand it to the engine as the scheduler would."""
    processor = WhisperTinyEnProcessor(model)

    def admit(engine, rid, name="quick_brown_fox", **sampling):
        output = run_processor(processor, [audio(clip(name))])
        (item,) = output.items
        array = item.feature.array
        array.flags.writeable = False  # as the pool's views are
        admitted = AdmittedItem(item.modality, array, item.feature.dtype, item.spans, item.hash, {})
        engine.admit(Admission(rid, output.input_ids, (admitted,), None, sampling))
        return weakref.ref(array)

    return admit


def run(engine):
    """Step until nothing is admitted; emissions by request."""
    answers = {}
    while emissions := engine.step():
        for emission in emissions:
            answers.setdefault(emission.rid, []).append(emission)
    return answers


def text_of(emissions):
    return "".join(emission.text for emission in emissions)


def test_the_engine_is_found_by_the_models_name(model):
    """The entry point is all that connects the package to Forebay, and no folder is needed."""
    assert engine_class(model) is WhisperTinyEnEngine


def test_speech_is_streamed_word_by_word_and_joins_to_the_sentence(engine, admit):
    """Ten tokens of text and the one that ends them, each in a step of its own."""
    admit(engine, "fox")

    emissions = run(engine)["fox"]

    assert text_of(emissions) == FOX
    assert [emission.text for emission in emissions[:3]] == ["The", " quick", " brown"]
    assert [emission.tokens for emission in emissions] == [1] * 11
    assert [emission.finish_reason for emission in emissions] == [None] * 10 + ["stop"]


def test_a_greeting_is_transcribed(engine, admit):
    """A second clip, so that the first sentence is no accident."""
    admit(engine, "hello", "hello_world")

    assert text_of(run(engine)["hello"]) == "Hello world."


def test_numbers_are_written_in_figures(engine, admit):
    """The model's way; where it sets hyphens between them is not ours to fix."""
    admit(engine, "counting", "counting")

    figures = "".join(filter(str.isdigit, text_of(run(engine)["counting"])))

    assert figures == "12345678910"


def test_requests_advance_side_by_side(engine, admit):
    """A request that comes later neither waits for the earlier one nor changes its text."""
    admit(engine, "fox")
    first = engine.step()
    admit(engine, "hello", "hello_world")

    second = engine.step()

    assert [emission.rid for emission in second] == ["fox", "hello"]
    rest = run(engine)
    assert text_of([*first, second[0], *rest["fox"]]) == FOX
    assert text_of([second[1], *rest["hello"]]) == "Hello world."


def test_the_callers_limit_ends_the_text_early(engine, admit):
    """``max_new_tokens`` counts tokens; the reason tells that there was more."""
    admit(engine, "fox", max_new_tokens=3)

    emissions = run(engine)["fox"]

    assert text_of(emissions) == "The quick brown"
    assert emissions[-1].finish_reason == "length"
    assert sum(emission.tokens for emission in emissions) == 3


def test_a_limit_below_one_token_is_refused(engine, admit):
    """There is no answer of no tokens."""
    with pytest.raises(Rejected, match="max_new_tokens is 0"):
        admit(engine, "none", max_new_tokens=0)

    assert engine.room().requests == MOST_REQUESTS


def test_an_aborted_request_says_nothing_more(engine, admit):
    """Abort forgets the request and gives its room back; of an unknown one it takes no notice."""
    admit(engine, "fox")
    engine.step()

    engine.abort("fox")
    engine.abort("unknown")

    assert engine.step() == []
    assert engine.room() == Room(requests=4, tokens=4 * 448)


def test_room_shrinks_as_requests_come_and_returns_as_they_finish(engine, admit):
    """Each request has a place, and the decoder's whole context with it."""
    for number in range(MOST_REQUESTS):
        admit(engine, str(number), max_new_tokens=1)

    full = engine.room()
    emissions = engine.step()

    assert full == Room(requests=0, tokens=0)
    assert [emission.finish_reason for emission in emissions] == ["length"] * MOST_REQUESTS
    assert engine.room() == Room(requests=4, tokens=4 * 448)


def test_no_view_into_shared_memory_is_kept(engine, admit):
    """The features are copied when the request is admitted, so the block may be freed at any time after."""
    view = admit(engine, "fox")

    gc.collect()

    assert view() is None
