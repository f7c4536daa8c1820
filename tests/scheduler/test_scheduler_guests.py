"""Engines are guests: what one of them cannot do fails a request, never the process, and leaves nothing taken."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest

from forebay import Admission, Emission, Rejected
from forebay.errors import Failed
from tests.scheduler.tier import Echo

pytestmark = pytest.mark.service


class Refusing(Echo):
    """Looks at the features, and takes no request whose id begins with ``bad``."""

    error: Exception = ZeroDivisionError("/secret/path")

    def admit(self, admission: Admission) -> None:
        first = admission.items[0].array if admission.items else None
        if admission.rid.startswith("bad"):
            assert first is None or first.size
            raise self.error
        super().admit(admission)


def test_what_an_engine_cannot_take_fails_alone(tier_with, caplog):
    """500 without a word of the inside, the cause in the log; the others are answered."""
    tier = tier_with(Refusing())
    tier.park("bad")
    tier.park("good")

    tier.finish("bad", "good")

    problem = tier.way.record("bad").problem
    assert tier.way.state("bad") == "failed"
    assert (problem.code, problem.status) == ("internal_error", 500)
    assert "secret" not in problem.message
    (logged,) = [record for record in caplog.records if record.msg == "engine failed"]
    assert (logged.rid, logged.exc_info[0]) == ("bad", ZeroDivisionError)
    assert tier.way.state("good") == "done"


def test_what_an_engine_rejects_is_the_callers_mistake(tier_with, caplog):
    """Its code, its words, a 4xx; no error in the log."""
    engine = Refusing()
    engine.error = Rejected("no_speech", "audio_data holds no speech", param="audio_data", status=422)
    tier = tier_with(engine)
    tier.park("bad")

    with caplog.at_level(logging.ERROR):
        tier.finish("bad")

    problem = tier.way.record("bad").problem
    assert tier.way.state("bad") == "rejected"
    assert (problem.code, problem.status, problem.param) == ("no_speech", 422, "audio_data")
    assert caplog.records == []


@pytest.mark.parametrize("cause", [None, ValueError("deeper")])
def test_the_block_of_what_an_engine_refused_is_free_when_its_end_is_seen(tier_with, caplog, cause):
    """The traceback looks at the features; it must not keep them."""

    class Looking(Refusing):
        def admit(self, admission: Admission) -> None:
            feature = admission.items[0].array
            try:
                self._look_deeper(feature)
            except ValueError as error:
                raise RuntimeError("refused") from error

        def _look_deeper(self, feature: np.ndarray) -> None:
            row = feature[0]
            raise ValueError(row.shape)

    tier = tier_with(Looking())
    tier.park_picture("bad")

    with caplog.at_level(logging.WARNING):
        tier.finish("bad")

    assert tier.way.state("bad") == "failed"
    assert tier.blocks == 0
    assert [record.msg for record in caplog.records] == ["engine failed"]


class Fragile(Echo):
    """A step that breaks when it is told to."""

    breaks = False

    def step(self) -> Sequence[Emission]:
        features = [item.array for admission in self.admitted.values() for item in admission.items]
        if self.breaks:
            raise RuntimeError(f"CUDA error over {len(features)} features")
        return super().step()


def test_a_step_that_fails_fails_everything_that_runs_and_nothing_else(tier_with):
    """No request of the engine is in a known state; the next one works, and nothing is left in the pool."""
    tier = tier_with(Fragile())
    tier.park_picture("r1")
    tier.park("r2", ids=[1, 2, 3])
    tier.turn()
    tier.engine.breaks = True
    tier.turn()

    assert [(tier.way.state(rid), tier.way.record(rid).problem.code) for rid in ("r1", "r2")] == [
        ("failed", "internal_error"),
        ("failed", "internal_error"),
    ]
    assert sorted(tier.engine.aborted) == ["r1", "r2"]
    assert tier.blocks == 0

    tier.engine.breaks = False
    tier.park_picture("r3")
    tier.finish("r3")
    assert tier.way.state("r3") == "done"


class Choking(Echo):
    """Chokes on the second token of one request."""

    error: Exception = MemoryError("KV cache")

    def say(self, rid: str) -> Emission:
        if rid == "bad" and self.said[rid] == 1:
            self.forget(rid)
            return Emission(rid, error=self.error)
        return super().say(rid)


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (MemoryError("KV cache"), "failed", "internal_error"),
        (Rejected("too_long", "5 of 4"), "rejected", "too_long"),
        (Failed("cache_full", "no room", status=503), "failed", "cache_full"),
    ],
)
def test_an_emission_with_an_error_ends_that_request_alone(tier_with, error, state, code):
    """The engine has forgotten it; the others go on."""
    engine = Choking()
    engine.error = error
    tier = tier_with(engine)
    tier.park_picture("bad")
    tier.park("good", ids=[1, 2, 3])

    tier.finish("bad", "good")

    assert (tier.way.state("bad"), tier.way.record("bad").problem.code) == (state, code)
    assert tier.way.record("good").result["outputs"][0]["text"] == "1 2 3 "
    assert tier.blocks == 0


@pytest.mark.parametrize(
    "last",
    [
        Emission("bad", "x", 1, "stop", {"probability": np.float32(0.5)}),
        Emission("bad", "x", 1, "stop", {"label": object()}),
        Emission("bad", "\ud800", 1),
        Emission("bad", "\ud800", 1, "stop"),
    ],
    ids=["a NumPy number", "an object", "a lone surrogate", "a lone surrogate at the end"],
)
def test_what_cannot_be_sent_fails_the_request_that_said_it_alone(tier_with, last):
    """Facts that are no plain values, text that is no text: a guest's mistake must not end the process."""

    class Odd(Echo):
        def say(self, rid: str) -> Emission:
            return last if rid == "bad" else super().say(rid)

    tier = tier_with(Odd())
    tier.park_picture("bad")
    tier.park("good", ids=[1, 2])

    tier.finish("bad", "good")

    assert (tier.way.state("bad"), tier.way.record("bad").problem.code) == ("failed", "internal_error")
    assert tier.way.state("good") == "done"
    assert tier.engine.aborted == ["bad"]
    assert tier.blocks == 0


def test_an_emission_for_nobody_is_passed_over(tier_with):
    """An engine may still speak of a request that was taken from it."""

    class Haunted(Echo):
        def step(self) -> Sequence[Emission]:
            return [Emission("ghost", "boo", 1), Emission("ghost", "", 0, "stop"), *super().step()]

    tier = tier_with(Haunted())
    tier.park("r1")

    tier.finish("r1")

    assert [piece[0] for piece in tier.pieces()] == ["r1"]


def test_an_engine_that_keeps_an_array_keeps_its_block_until_it_lets_go(tier_with, caplog):
    """Never a crash, never another request's data under its eyes; the log says so, and the end is written."""

    class Greedy(Echo):
        kept: np.ndarray | None = None

        def admit(self, admission: Admission) -> None:
            super().admit(admission)
            if admission.items:
                self.kept = admission.items[0].array[0]

    tier = tier_with(Greedy())
    tier.park_picture("r1")
    with caplog.at_level(logging.WARNING):
        tier.finish("r1")

    assert tier.way.state("r1") == "done"
    assert tier.blocks == 1
    assert [record.msg for record in caplog.records] == ["features still referenced"]
    assert tier.engine.kept.tolist() == [2.0, 2.0, 2.0]

    tier.park("r2")
    tier.finish("r2")
    assert tier.blocks == 1
    assert tier.engine.kept.tolist() == [2.0, 2.0, 2.0]

    tier.engine.kept = None
    tier.park("r3")
    tier.finish("r3")
    assert tier.blocks == 0
