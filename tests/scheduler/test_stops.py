"""Where an answer ends: before the first stop text, wherever its letters fall."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.stops import StopFilter, stops_in
from tests.scheduler.tier import Tier


def passed(stops, pieces):
    """What comes through, and whether a stop did it."""
    stop = StopFilter(stops)
    out = [stop.feed(piece) for piece in pieces]
    return "".join(out) + stop.flush(), stop.is_over


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        ([], ["a", "b"], ("ab", False)),
        (["b"], ["a", "b", "c"], ("a", True)),
        (["bc"], ["ab", "cd"], ("a", True)),
        (["bc"], ["ab", "x"], ("abx", False)),
        (["bc"], ["ab"], ("ab", False)),
        (["bcd", "c"], ["abcd"], ("a", True)),
        (["aab"], ["a", "a", "a", "b"], ("a", True)),
        (["x", "yz"], ["y", "y", "z"], ("y", True)),
        (["a"], ["a"], ("", True)),
    ],
)
def test_an_answer_ends_before_its_first_stop(stops, pieces, expected):
    """The earliest of several; what only began like one is part of the answer."""
    assert passed(stops, pieces) == expected


@given(
    stops=st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
    pieces=st.lists(st.text("abc", max_size=3), max_size=6),
)
def test_pieces_make_no_difference(stops, pieces):
    """However the text is cut, it ends where the whole text would; and nothing is passed on that is taken back."""
    text = "".join(pieces)
    places = [text.find(stop) for stop in stops if stop in text]

    assert passed(stops, pieces) == (text[: min(places)] if places else text, bool(places))


def test_stops_are_one_text_or_several():
    """And whatever else stands there is none."""
    assert stops_in({"stop": "a"}) == ("a",)
    assert stops_in({"stop": ["a", "", 5, "b"]}) == ("a", "b")
    assert stops_in({}) == stops_in({"stop": None}) == stops_in({"stop": 5}) == ()


@pytest.mark.service
def test_the_engine_is_told_to_leave_it(tier: Tier):
    """It knows of no stop texts; the caller gets nothing of the stop, nor of what comes after it."""
    tier.park("r1", [1, 2, 3, 4], stop=["3 "])

    tier.finish("r1")
    tier.turn()

    [output] = tier.way.record("r1").result["outputs"]
    assert (output["text"], output["finish_reason"], output["completion_tokens"]) == ("1 2 ", "stop", 3)
    assert (tier.engine.admitted, tier.engine.aborted) == ({}, ["r1"])
    told = [msgpack.unpackb(event["piece"])[0] for event in tier.way.events() if event["event"] == b"piece"]
    assert "".join(told) in ("1 2 ", "1 ")


@pytest.mark.service
def test_one_of_several_answers_may_stop_while_the_others_go_on(tier: Tier):
    """Each has its own text."""
    tier.park("r1", [1, 2, 3], stop=["2"], samples=2)

    tier.finish("r1")

    assert [output["text"] for output in tier.way.record("r1").result["outputs"]] == ["1 "] * 2
    assert tier.engine.admitted == {}
