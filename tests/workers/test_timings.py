"""Where the time of a request went."""

import pytest

from workers import timings as module
from workers.timings import Timings


@pytest.fixture
def clock(monkeypatch):
    """A clock that we turn."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def test_a_stage_entered_twice_adds_up(clock):
    """In milliseconds, rounded for the record; stages keep their order."""
    timings = Timings()
    for seconds in (0.001, 0.0020004):
        with timings.stage("decode"):
            clock[0] += seconds
    with timings.stage("write"):
        clock[0] += 1

    assert timings.rounded() == {"decode": 3.0, "write": 1000.0}
    assert list(timings.rounded()) == ["decode", "write"]


def test_a_stage_that_fails_has_taken_its_time_too(clock):
    """The record tells where."""
    timings = Timings()

    def fail():
        with timings.stage("decode"):
            clock[0] += 0.5
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()

    assert timings.rounded() == {"decode": 500.0}
