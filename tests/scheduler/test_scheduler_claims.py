"""What a scheduler holds, and loses: cancelled, expired and lapsed requests, and features that are gone."""

from __future__ import annotations

from typing import Any

import pytest

from forebay import DType, Emission, Feature, ModelSource, Processed, Room
from forebay.ticket import Ticket
from handoff.moves import End, Fence
from scheduler.intake import Intake
from tests.scheduler.tier import Echo, Plain, Tier
from tests.support.ways import MODEL, NODE

pytestmark = pytest.mark.service


# No longer wanted.


class Quiet(Echo):
    """Says nothing until the end."""

    def say(self, rid: str) -> Emission:
        emission = super().say(rid)
        return emission if emission.finish_reason else Emission(rid, "", 1)


@pytest.mark.parametrize(
    ("engine", "renewed_at"), [(Echo, float("inf")), (Quiet, 0.0)], ids=["by its next piece", "by its lease"]
)
def test_a_request_that_is_cancelled_while_it_runs_is_aborted(tier_with, engine, renewed_at):
    """Noticed by the piece that nobody takes, or else by the lease; its block goes, the others go on."""
    tier = tier_with(engine())
    tier.scheduler._renewed_at = renewed_at
    tier.park_picture("r1", rows=[8])
    tier.park("r2", ids=[1, 2, 3, 4])
    tier.turn()

    tier.way.cancel("r1")
    tier.turn(2)

    assert tier.engine.aborted == ["r1"]
    assert list(tier.engine.admitted) == ["r2"]
    assert tier.blocks == 0
    assert tier.way.state("r1") == "cancelled"
    tier.finish("r2")
    assert tier.way.state("r2") == "done"


def test_a_request_that_expired_while_it_ran_keeps_that_end(tier: Tier):
    """The janitor writes it; the scheduler's own is refused."""
    tier.park_picture("r1")
    tier.turn()
    seen = tier.way.record("r1").seen
    assert tier.way.do(tier.way.moves.finish("r1", Fence.seen(seen), End.expired())).ok

    tier.turn(6)

    assert tier.way.state("r1") == "expired"
    assert (tier.blocks, tier.engine.admitted) == (0, {})


def test_a_lapsed_request_that_we_claim_again_is_begun_anew(tier: Tier):
    """We were too slow, nobody else took it: the engine forgets the first run, and the answer is told once."""
    tier.park_picture("r1", rows=[3])
    tier.turn(2)
    first = tier.pieces()[0][1]
    tier.way.let_lapse("r1")
    assert tier.way.do(tier.way.moves.lapse(NODE, MODEL)) == ["r1"]

    tier.finish("r1")

    again = [piece for piece in tier.pieces() if piece[1] != first]
    assert tier.engine.aborted == ["r1"]
    assert [piece[2] for piece in again] == list(range(len(again)))
    assert "".join(piece[3] for piece in again) == "1 7 7 7 "
    assert tier.way.record("r1").result["outputs"][0]["text"] == "1 7 7 7 2 "
    assert (tier.blocks, tier.scheduler.intake.held) == (0, {})


def test_a_lapsed_request_that_another_took_is_left_to_it(tier: Tier):
    """The first stops at once, and frees nothing that the second reads."""
    tier.park_picture("r1", rows=[3])
    tier.turn(2)
    tier.way.let_lapse("r1")
    tier.way.do(tier.way.moves.lapse(NODE, MODEL))
    second = tier.another_scheduler(Echo())
    second.turn()

    tier.turn()

    assert tier.engine.admitted == {}
    assert tier.blocks == 1
    for _ in range(5):
        second.turn()
    assert tier.way.record("r1").result["outputs"][0]["text"] == "1 7 7 7 2 "
    assert tier.blocks == 0


# Features that are gone.


class Several(Plain):
    """Does not say how large its features are, so that each gets a block of its own."""

    def feature_bytes(self, media: Any) -> int:
        return 0

    def process_item(self, media: Any, work: Any) -> Processed:
        array = work.empty((1, 40_000))  # more than the slack beside an earlier one
        array[:] = media.pixels[0, 0, 0]
        return Processed(Feature.of(array, DType.FLOAT32), 1)


def lose_a_block(tier: Tier, number: int = 0) -> None:
    """As if the janitor had freed it: the ticket's handle is stale."""
    (ticket,) = [tier.way.raw(rid)["ticket"] for rid in tier.way.waiting()]
    assert tier.driver.pool.free(Ticket.unpack(ticket).blocks[number])


def test_features_that_are_gone_are_made_again(tier: Tier):
    """Under the next attempt, on the same node; the answer is the same."""
    tier.park_picture("r1")
    lose_a_block(tier)

    tier.turn()

    record = tier.way.record("r1")
    assert (record.state, record.attempt) == ("queued", 2)
    tier.work()
    tier.finish("r1")
    assert tier.way.record("r1").result["outputs"][0]["text"] == "1 7 7 2 "
    assert tier.blocks == 0


def test_features_are_made_again_only_as_often_as_a_request_may_be_tried(tier: Tier):
    """What goes wrong each time ends, long before its deadline."""
    tier.park_picture("r1")
    for _ in range(3):
        assert tier.way.state("r1") == "parked"
        lose_a_block(tier)
        tier.turn()
        tier.work()

    record = tier.way.record("r1")
    assert (record.state, record.attempt, record.problem.code) == ("failed", 3, "features_gone")
    assert "after each of 3 attempts" in record.problem.message
    assert tier.blocks == 0


@pytest.mark.parametrize("lost", [0, 1])
def test_of_several_blocks_the_ones_that_are_left_are_given_back(tier_with, lost):
    """A request is made again whole; what was mapped of the first attempt must not stay taken."""
    tier = tier_with(Echo(), Several(ModelSource(MODEL)))
    tier.park_picture("r1", rows=[1, 1])
    assert tier.blocks == 2
    lose_a_block(tier, lost)

    tier.turn()

    (left,) = tier.driver.pool.blocks() or [None]
    assert left is None or left.reader == ""  # parked and never taken: the janitor sees that nobody speaks for it
    tier.work()
    tier.finish("r1")
    assert tier.way.record("r1").result["outputs"][0]["meta"] == {"sum": 120_000.0}


def test_a_ticket_of_another_release_is_made_again(tier: Tier):
    """While versions are mixed no ticket may end the process that polls it."""
    tier.park_picture("r1")
    key = tier.way.moves.keys.record("r1")
    tier.way.client.hset(key, "ticket", b"\x92\x63\x90")  # version 99

    tier.turn()

    record = tier.way.record("r1")
    assert (record.state, record.attempt) == ("queued", 2)


def test_a_request_that_was_cancelled_after_its_features_went_stays_cancelled(tier: Tier, monkeypatch):
    """There is nothing to make again."""
    tier.park_picture("r1")
    lose_a_block(tier)
    real = Intake.poll

    def poll(intake: Intake, room: Room) -> Any:
        polled = real(intake, room)
        tier.way.cancel("r1")
        return polled

    monkeypatch.setattr(Intake, "poll", poll)
    tier.turn()

    assert tier.way.state("r1") == "cancelled"
    assert tier.way.messages() == []
