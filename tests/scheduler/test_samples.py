"""Several answers of one request: prepared once, read from the same features, given back when the last is whole."""

from __future__ import annotations

import msgpack
import pytest

from forebay import Emission, Failed, Rejected
from tests.scheduler.tier import Echo, Tier

pytestmark = pytest.mark.service


def outputs(tier: Tier, rid: str = "r1") -> list[str]:
    return [output["text"] for output in tier.way.record(rid).result["outputs"]]


def test_every_answer_reads_the_same_features(tier: Tier):
    """The engine sees requests of their own; the pool has one block, until the last of them has ended."""
    tier.park_picture(rows=[2], samples=3)
    tier.turn()

    admitted = tier.engine.admitted
    assert sorted(admitted) == ["r1#0", "r1#1", "r1#2"]
    addresses = {one.items[0].array.__array_interface__["data"][0] for one in admitted.values()}
    assert len(addresses) == 1
    assert tier.blocks == 1

    tier.finish("r1")
    assert outputs(tier) == ["1 7 7 2 "] * 3
    assert [output["meta"] for output in tier.way.record().result["outputs"]] == [{"sum": 12.0}] * 3
    assert (tier.blocks, tier.engine.admitted, tier.scheduler.samples, tier.scheduler.running) == (0, {}, {}, {})


def test_one_answer_keeps_the_requests_own_id(tier: Tier):
    """As it always was."""
    tier.park("r1")
    tier.turn()

    assert sorted(tier.engine.admitted) == ["r1"]


def test_more_answers_than_room_come_in_turns(tier: Tier):
    """Never more at once than the engine takes; and all of them come."""
    assert tier.engine.most_requests == 4
    tier.park("r1", [1, 2, 3], samples=10)

    seen = []
    for _ in range(30):
        tier.turn()
        seen.append(len(tier.engine.admitted))
        if tier.way.record("r1").state.is_end:
            break

    assert max(seen) <= 4
    assert outputs(tier) == ["1 2 3 "] * 10


def test_answers_that_wait_go_before_new_requests(tier: Tier):
    """A request is finished before the next is begun."""
    tier.park("r1", [1, 2], samples=6)
    tier.park("r2", [5])
    tier.turn()

    assert set(tier.engine.admitted) <= {f"r1#{number}" for number in range(6)}
    tier.finish("r1", "r2")
    assert (outputs(tier, "r1"), outputs(tier, "r2")) == (["1 2 "] * 6, ["5 "])


def test_the_room_of_several_answers_is_counted(tier: Tier):
    """A ticket states the tokens of all of them; one that would not fit beside the others waits."""
    tier.park("first", [1] * 30)  # of 64 tokens
    tier.turn()
    tier.park("many", [1] * 20, samples=2)  # 40 more
    tier.turn()

    assert list(tier.engine.admitted) == ["first"]
    tier.finish("first", "many")
    assert len(outputs(tier, "many")) == 2


def test_a_request_that_wants_too_many_at_once_still_runs_alone(tier: Tier):
    """All together they are more than the engine ever takes; one by one they are not."""
    tier.park("r1", [1] * 30, samples=5, max_new_tokens=3)

    tier.finish("r1")

    assert len(outputs(tier)) == 5


class Failing(Echo):
    """Fails one answer of a request in a way of the test's choice."""

    def __init__(self, number: int, *, when: str):
        super().__init__()
        self.victim, self.when = f"r1#{number}", when

    def admit(self, admission):
        if admission.rid == self.victim and self.when == "admit":
            raise Rejected("too_odd", "no")
        super().admit(admission)

    def say(self, rid):
        if rid == self.victim and self.when == "emission":
            self.forget(rid)
            return Emission(rid, error=Failed("cache_full", "no room", status=503))
        if rid == self.victim and self.when == "unsendable":
            return Emission(rid, text=object(), tokens=1)
        return super().say(rid)


@pytest.mark.parametrize(
    ("when", "state", "code"),
    [
        ("admit", "rejected", "too_odd"),
        ("emission", "failed", "cache_full"),
        ("unsendable", "failed", "internal_error"),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 5])
def test_one_answer_that_fails_ends_the_request(tier_with, when, state, code, number):
    """The engine keeps nothing of the others, and the features are given back."""
    tier = tier_with(Failing(number, when=when))
    tier.park_picture(rows=[2], samples=6)

    tier.finish("r1")
    tier.turn()

    record = tier.way.record("r1")
    assert (record.state, record.problem.code) == (state, code)
    assert (tier.blocks, tier.engine.admitted, tier.scheduler.samples) == (0, {}, {})
    assert not tier.scheduler._held


def test_cancelling_leaves_nothing_of_any_answer(tier: Tier):
    """Neither of those that run nor of those that wait."""
    tier.park_picture(rows=[2], samples=6)
    tier.turn()

    tier.way.cancel("r1")
    tier.turn(2)

    assert (tier.blocks, tier.engine.admitted, tier.scheduler.samples) == (0, {}, {})
    assert not tier.scheduler._held
    assert tier.way.state("r1") == "cancelled"


def test_pieces_say_whose_they_are(tier: Tier):
    """And are numbered over all of them, so that one that comes twice is known."""
    tier.park("r1", [1, 2], samples=2)

    tier.finish("r1")

    told = [event for event in tier.way.events() if event["event"] == b"piece"]
    assert [msgpack.unpackb(event["piece"]) for event in told] == [["1 ", 1, 0], ["1 ", 1, 1], ["2 ", 1, 0]]
    assert [int(event["seq"]) for event in told] == [0, 1, 2]
