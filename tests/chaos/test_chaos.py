"""A minute of chaos: one end a request, the right answer, none too late, nothing held. ``make chaos`` takes ten."""

import pytest

from tests.chaos.nemesis import STRIKES
from tests.chaos.run import show, storm

pytestmark = [pytest.mark.system, pytest.mark.alone]


def test_a_minute_of_chaos_loses_nothing():
    """Whatever is killed, stopped, cut, delayed or filled up."""
    done, verdict = storm(60, seed=7)

    show(done, verdict)
    assert verdict.faults == {name: [] for name in verdict.faults}
    assert verdict.requests > 50
    assert sum(done.values()) >= 5
    assert set(done) <= {strike.replace("_", " ") for strike in STRIKES}
