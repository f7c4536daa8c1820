"""What waits for what in the scheduler's loop: nobody sleeps behind a refusal, and no refusal is lost with Redis."""

import pytest

from forebay import Failed, Rejected
from handoff.connection import connect
from scheduler import Intake
from tests.scheduler.tier import Echo

pytestmark = pytest.mark.service


class Small(Echo):
    """Takes three tokens."""

    most_tokens = 3


class Choosy(Echo):
    """Refuses the first request that it sees."""

    refused = ""

    def admit(self, admission):
        self.refused = self.refused or admission.rid
        if admission.rid == self.refused:
            raise Rejected("odd_prompt", "the prompt is odd")
        super().admit(admission)


def test_behind_a_prompt_that_can_never_fit_nobody_sleeps(tier_with, monkeypatch):
    """The next look comes with the next turn: what woke the scheduler once will not wake it again."""
    tier = tier_with(Small())
    tier.park("r1", ids=(1, 2, 3, 4))
    tier.park("r2", ids=(1, 2, 3, 4))
    monkeypatch.setattr(Intake, "wait", lambda self: pytest.fail("slept"))

    tier.turn(2)

    assert [tier.way.record(rid).problem.code for rid in ("r1", "r2")] == ["prompt_too_long"] * 2


def test_a_refusal_while_redis_is_away_is_written_later(tier_with):
    """And the others of the same look are admitted all the same."""
    tier = tier_with(Choosy())
    tier.park("r1")
    tier.park("r2")
    scheduler, redis = tier.scheduler, tier.scheduler.intake.redis
    scheduler._look()
    scheduler.intake.redis = connect("redis://127.0.0.1:1", "nobody")
    with pytest.raises(Failed, match="cannot be reached"):
        scheduler._deliver()
    scheduler.intake.redis = redis

    assert len(scheduler.running) == 1
    tier.finish("r1", "r2")

    assert sorted(tier.way.state(rid) for rid in ("r1", "r2")) == ["done", "rejected"]
    assert tier.way.record(tier.engine.refused).problem.code == "odd_prompt"


def test_a_request_whose_record_is_not_ours_ends_instead_of_the_process(tier_with):
    """Its features are gone, and what the record keeps of it is signed by nobody: it is not made again."""
    tier = tier_with(Echo())
    tier.park_picture("r1")
    tier.driver.pool.free(tier.driver.pool.blocks()[0].handle)
    tier.way.client.hset(tier.way.moves.keys.record("r1"), "body", b"somebody else's")
    tier.park("r2")

    tier.finish("r1", "r2")

    assert (tier.way.state("r1"), tier.way.record("r1").problem.code) == ("failed", "internal_error")
    assert tier.way.state("r2") == "done"
