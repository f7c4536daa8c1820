"""A step of the engine may take longer than a lease: the scheduler gives signs of life meanwhile."""

import threading
import time

import pytest

from handoff import moves as handoff_moves
from handoff import nodes
from scheduler import keeper, loop
from scheduler.keeper import keeping
from tests.scheduler.tier import Echo
from tests.support.ways import MODEL, NODE

LEASE_MS = 120


class Slow(Echo):
    """Its first step lasts twice as long as a lease; what is seen at its begin and at its end is noted."""

    def __init__(self):
        super().__init__()
        self.look = lambda: None
        self.seen = []

    def step(self):
        if not self.seen:
            self.seen.append(self.look())
            time.sleep(2 * LEASE_MS / 1000)
            self.seen.append(self.look())
        return super().step()


@pytest.fixture
def slow(tier_with, monkeypatch):
    """A tier whose leases are short, with a janitor's look before and after the long step."""
    monkeypatch.setattr(handoff_moves, "LEASE_MS", LEASE_MS)
    monkeypatch.setattr(loop, "_KEEP_EVERY_S", LEASE_MS / 4000)
    tier = tier_with(Slow())
    tier.engine.look = lambda: tier.way.do(tier.way.moves.lapse(NODE, MODEL))
    return tier


def run_until_ended(tier, rid="r1"):
    """The scheduler's own loop, stopped when the request has ended."""

    def watch():
        for _ in range(500):
            if tier.way.record(rid).state.is_end:
                break
            time.sleep(0.005)
        tier.scheduler.stop()

    watching = threading.Thread(target=watch)
    watching.start()
    tier.scheduler.run()
    watching.join()


@pytest.mark.service
def test_a_long_step_loses_no_lease(slow):
    """Otherwise its request would be parked, claimed and begun again, for ever."""
    slow.park_picture()

    run_until_ended(slow)

    assert slow.engine.seen == [[], []]
    assert (slow.way.state("r1"), slow.way.record("r1").lapses, slow.way.record("r1").attempt) == ("done", 0, 1)
    assert slow.engine.aborted == []


@pytest.mark.service
def test_a_loop_that_stands_still_for_longer_than_any_step_is_taken_for_dead(slow, monkeypatch):
    """Its requests go to the next scheduler."""
    monkeypatch.setattr(loop, "LONGEST_STEP_S", 0.0)
    slow.park_picture()

    run_until_ended(slow)

    assert slow.engine.seen == [[], ["r1"]]


@pytest.mark.service
def test_a_long_step_does_not_make_the_engine_silent(slow, monkeypatch):
    """The register hears of it as often as ever."""
    monkeypatch.setattr(nodes, "ANNOUNCE_S", 0.0)
    slow.engine.look = lambda: slow.way.client.hget(slow.way.moves.keys.node(NODE), f"engine:{MODEL}")
    slow.park()

    run_until_ended(slow)

    before, after = slow.engine.seen
    assert before < after  # the time of the announcement comes first in it


def test_the_second_thread_ends_with_its_block():
    """And calls in between."""
    calls = []

    with keeping(lambda: calls.append(threading.current_thread()), 0.005):
        time.sleep(0.05)
    called = len(calls)
    time.sleep(0.02)

    assert called == len(calls) > 1
    assert {thread.name for thread in calls} == {"keeper"}
    assert not calls[0].is_alive()


def test_the_block_does_not_wait_for_a_call_that_hangs(monkeypatch):
    """Redis may be away when the process stops."""
    monkeypatch.setattr(keeper, "_WAIT_AT_END_S", 0.02)
    hanging, began = threading.Event(), time.monotonic()

    with keeping(hanging.wait, 0.001):
        time.sleep(0.02)

    assert time.monotonic() - began < 1
    hanging.set()
