"""The scheduler's loop over a real worker, a real pool and a real Redis: each request ends once, each block goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from forebay import ConfigurationError, Emission, Room
from handoff import nodes
from scheduler import intake
from tests.scheduler.tier import Echo, Tier
from tests.support.toys import IMAGE_TOKEN
from tests.support.ways import MODEL, NODE

pytestmark = pytest.mark.service


# The usual way.


def test_a_request_is_run_to_its_end(tier: Tier):
    """Its tokens, its features, its facts: what the engine said is what the record holds."""
    tier.park_picture(rows=[2])

    tier.finish("r1")

    record = tier.way.record()
    assert record.state == "done"
    output = {
        "text": f"1 {IMAGE_TOKEN} {IMAGE_TOKEN} 2 ",
        "completion_tokens": 4,
        "finish_reason": "stop",
        "meta": {"sum": 12.0},  # two rows of three colours, each two pixels of 1
    }
    assert record.result == {"prompt_tokens": 4, "outputs": [output]}
    assert list(record.times_ms) == ["accepted", "queued", "processing", "parked", "admitted", "first_token", "end"]
    assert (tier.blocks, tier.engine.admitted, tier.scheduler.intake.held) == (0, {}, {})


def test_the_block_is_free_before_the_end_can_be_seen(tier: Tier, monkeypatch):
    """Whoever sees the end finds the pool as it was before the request."""
    seen: list[int] = []

    def watching(client: Any, move: Any) -> Any:
        if move.script == "finish":
            seen.append(tier.blocks)
        return perform(client, move)

    perform = intake.perform
    monkeypatch.setattr(intake, "perform", watching)
    tier.park_picture()
    assert tier.blocks == 1

    tier.finish("r1")

    assert seen == [0]


def test_pieces_reach_the_caller_numbered_and_under_their_claim(tier: Tier):
    """One for each step but the last, whose text is in the end."""
    tier.park("r1", ids=[4, 5, 6])

    tier.finish("r1")

    claim = tier.pieces()[0][1]
    assert tier.pieces() == [("r1", claim, 0, "4 "), ("r1", claim, 1, "5 ")]
    assert tier.way.record().result["outputs"][0]["text"] == "4 5 6 "


def test_requests_run_side_by_side(tier: Tier):
    """Each with its own answer; a short one need not wait for a long one."""
    tier.park("long", ids=[1, 2, 3, 4, 5])
    tier.park("short", ids=[9])

    tier.turn(2)

    assert tier.way.state("short") == "done"
    assert tier.way.state("long") == "admitted"
    tier.finish("long")
    assert tier.way.record("long").result["outputs"][0]["text"] == "1 2 3 4 5 "


def test_a_text_alone_takes_no_memory(tier: Tier):
    """Its ids lie in the ticket."""
    tier.park("r1", ids=[5])

    assert tier.blocks == 0
    tier.finish("r1")
    assert tier.way.record().result["outputs"][0]["text"] == "5 "


def test_an_idle_scheduler_is_woken_by_what_is_parked(tier: Tier, monkeypatch):
    """It sleeps on Redis, not on a clock."""
    monkeypatch.setattr("scheduler.intake.MAX_BLOCK_MS", 4000)
    tier.turn()  # nothing waits; the next turn sleeps
    tier.queue("r1", [5], [])
    working = threading.Timer(0.05, tier.work)
    working.start()
    began = time.monotonic()

    tier.turn()

    working.join()
    assert tier.way.state() == "done"
    assert time.monotonic() - began < 3


def test_a_scheduler_tells_the_register_that_its_engine_lives(tier: Tier):
    """And withdraws when it stops, so that nobody waits for its silence."""
    tier.turn()
    parts = tier.way.client.hgetall(tier.way.moves.keys.node(NODE))
    now = nodes.read_node(NODE, parts, 0)
    assert now.engines == (MODEL,)

    tier.scheduler.stop()
    tier.scheduler.run()

    assert not tier.way.client.exists(tier.way.moves.keys.node(NODE))


# Room.


class Narrow(Echo):
    most_requests, most_tokens = 1, 5


def test_a_prompt_that_can_never_fit_is_refused_with_both_numbers(tier_with):
    """Otherwise it would wait for its deadline, and everything behind it too."""
    tier = tier_with(Narrow())
    tier.park_picture("large", rows=[4])  # 1 + 4 + 1 tokens
    tier.park("small", ids=[1, 2, 3, 4, 5])

    tier.finish("large", "small")

    problem = tier.way.record("large").problem
    assert tier.way.state("large") == "rejected"
    assert (problem.code, problem.status) == ("prompt_too_long", 400)
    assert problem.message == "the expanded prompt has 6 tokens; the engine takes at most 5"
    assert tier.way.state("small") == "done"
    assert tier.blocks == 0


def test_what_does_not_fit_now_waits_parked(tier_with):
    """A busy engine refuses nobody, and the large one is not overtaken for ever."""
    tier = tier_with(Narrow())
    tier.park("first", ids=[1, 2, 3])
    tier.turn()
    tier.park("second", ids=[4, 5])

    tier.turn()

    assert tier.way.state("second") == "parked"
    tier.finish("first", "second")
    assert tier.way.state("second") == "done"


def test_an_engine_without_room_for_any_request_refuses_none(tier_with):
    """It is not ready, which is no reason to call a prompt too long."""

    class Warming(Echo):
        warm = False

        def room(self) -> Room:
            return super().room() if self.warm else Room(0, 0)

    tier = tier_with(Warming())
    tier.park("r1")
    tier.turn(3)
    assert tier.way.state() == "parked"

    tier.engine.warm = True
    tier.finish("r1")
    assert tier.way.state() == "done"


def test_of_two_schedulers_each_runs_what_it_claimed(tier: Tier):
    """No request twice."""
    second = tier.another_scheduler(Narrow())
    tier.engine.most_requests = 1
    tier.park("r1", ids=[1, 2, 3])
    tier.park("r2", ids=[1, 2, 3])

    for _ in range(4):
        tier.turn()
        second.turn()

    assert [tier.way.state(rid) for rid in ("r1", "r2")] == ["done", "done"]
    assert sorted(tier.pieces()) == [(rid, *rest) for rid in ("r1", "r2") for rest in _said_by(tier, rid)]


def _said_by(tier: Tier, rid: str) -> list[tuple[str, int, str]]:
    """Two pieces under one claim."""
    (claim,) = {piece[1] for piece in tier.pieces() if piece[0] == rid}
    return [(claim, 0, "1 "), (claim, 1, "2 ")]


# Stopping.


def test_a_drain_finishes_what_runs_and_admits_nothing_more(tier: Tier):
    """The rest stays parked for the next scheduler."""
    tier.park("r1", ids=[1, 2, 3])
    tier.turn()
    tier.park_picture("r2")

    tier.scheduler.stop()
    tier.scheduler.run()

    assert [tier.way.state(rid) for rid in ("r1", "r2")] == ["done", "parked"]
    successor = tier.another_scheduler(Echo())
    for _ in range(6):
        successor.turn()
    assert tier.way.state("r2") == "done"
    assert tier.blocks == 0


def test_a_drain_ends_with_its_time(tier_with):
    """An engine that never ends keeps nobody; its request is still leased, and lapses."""

    class Endless(Echo):
        def step(self) -> Sequence[Emission]:
            return [Emission(rid, "…", 1) for rid in self.admitted]

    tier = tier_with(Endless())
    scheduler = tier.another_scheduler(tier.engine, drain_s=0.05)
    tier.park("r1")
    scheduler.turn()

    scheduler.stop()
    scheduler.run()

    assert scheduler.is_over
    assert tier.way.state("r1") == "admitted"
    assert tier.way.leased() == ["r1"]


def test_an_idle_scheduler_stops_at_once_and_stopping_twice_is_safe(tier: Tier):
    """There is nothing to wait for."""
    assert not tier.scheduler.is_stopping
    assert not tier.scheduler.is_over

    tier.scheduler.stop()
    tier.scheduler.stop()

    assert tier.scheduler.is_stopping
    assert tier.scheduler.is_over


def test_a_scheduler_whose_pool_was_replaced_ends(tier):
    """It would look for features where nobody puts them; its successor finds the new one."""
    tier.turn()
    tier.scheduler.intake.pool.path.unlink()
    tier.scheduler._announced_at = float("-inf")

    with pytest.raises(ConfigurationError, match="was removed, replaced or cut off"):
        tier.turn()
