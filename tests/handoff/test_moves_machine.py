"""Every order of moves that people, workers, schedulers and reconcilers can come up with: exactly one end.

A model in plain Python runs beside the real Redis; each move, sent once or twice as redis-py may, must answer as the
model does, and the sets in Redis must say what the model says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from handoff.moves import MAX_ATTEMPTS, End, Fence, Seen
from tests.support.long import LONG
from tests.support.ways import NODE, Way

pytestmark = pytest.mark.service

RIDS = st.sampled_from(["r1", "r2"])
OWNERS = st.sampled_from(["w1", "w2"])
SCHEDULERS = st.sampled_from(["s1", "s2"])
TWICE = st.booleans()
LIVE = {"accepted", "queued", "processing", "parked", "admitted"}
ENDS = {"done", "failed", "expired", "cancelled"}


@dataclass
class Request:
    """What the record of one acceptance should be."""

    token: str
    state: str = "accepted"
    attempt: int = 1
    owner: str = ""
    claim: str = ""
    lapses: int = 0
    ended_by: tuple[str, str] | None = None

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def fences(self) -> dict[str, str | None]:
        """The value that each kind of holder needs now."""
        return {
            "token": self.token if self.state == "accepted" else None,
            "owner": f"{self.attempt}/{self.owner}" if self.state == "processing" else None,
            "claim": self.claim if self.state == "admitted" else None,
            "attempt": f"{self.state}/{self.attempt}/{self.token}",
        }


@dataclass
class Model:
    """All requests, by id; and how many ends each acceptance has had."""

    requests: dict[str, Request] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    def of(self, state: str) -> set[str]:
        return {rid for rid, request in self.requests.items() if request.state == state}

    def end(self, rid: str, state: str) -> None:
        request = self.requests[rid]
        request.state = state
        self.ends[request.token] = self.ends.get(request.token, 0) + 1


class Hub(RuleBasedStateMachine):
    """The moves, in any order, by anybody."""

    def __init__(self, way: Way) -> None:
        super().__init__()
        self.way, self.model, self.numbers = way, Model(), 0
        self.former: list[tuple[str, str]] = []  # fences that have ended a request or tried to
        way.client.flushdb()
        way.listen("api-1")

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def do(self, move, twice):
        """Perform a move, perhaps twice: a replay answers the same."""
        reply = self.way.do(move)
        if twice:
            assert self.way.do(move) == reply, move.script
        return reply

    def get(self, rid: str) -> Request:
        return self.model.requests.get(rid) or Request("none", state="")

    @rule(rid=RIDS, times=st.integers(1, 5))
    def go_on(self, rid, times):
        """As most requests do: a few right steps, so that the wrong ones meet every state."""
        for _ in range(times):
            request = self.get(rid)
            if not request.is_live:
                self.accept(rid, twice=False)
            elif request.state == "accepted":
                self.enqueue(rid, twice=False, stale=False)
            elif request.state == "queued":
                self.begin(rid, "w1", "", twice=False)
            elif request.state == "processing":
                self.park(rid, request.owner, 0, twice=False)
            elif request.state == "parked":
                self.claim("s1", 3, twice=False)

    @rule(rid=RIDS, twice=TWICE)
    def accept(self, rid, twice):
        token, request = f"t{self.number()}", self.get(rid)
        replies = [self.way.accept(rid, token, reply_to="api-1", size_bytes=7) for _ in range(1 + twice)]
        assert len(set(replies)) == 1
        if request.is_live:
            assert (replies[0].outcome, replies[0].state) == ("duplicate", request.state)
        else:
            assert replies[0].outcome == "ok"
            self.model.requests[rid] = Request(token)

    @rule(rid=RIDS, twice=TWICE, stale=st.booleans())
    def enqueue(self, rid, twice, stale):
        request = self.get(rid)
        token = "stale" if stale else request.token
        move = self.way.moves.enqueue(rid, token, b"body", NODE, "text", b"%d" % self.number())
        moved = self.do(move, twice)
        ok = not stale and request.is_live and request.attempt == 1
        assert moved.ok == ok
        if ok and request.state == "accepted":
            request.state = "queued"

    @rule(rid=RIDS, owner=OWNERS, dead=st.sampled_from(["", "w1", "w2"]), twice=TWICE)
    def begin(self, rid, owner, dead, twice):
        request = self.get(rid)
        begun = self.do(self.way.moves.begin(rid, request.token, owner, dead=dead), twice)
        if request.state == "processing" and request.owner == owner:
            assert (begun.outcome, begun.attempt) == ("run", request.attempt)
        elif request.state == "processing" and request.owner != dead:
            assert (begun.outcome, begun.owner) == ("busy", request.owner)
        elif request.state == "processing" and request.attempt + request.lapses >= MAX_ATTEMPTS:
            assert begun.outcome == "abandoned"
        elif request.state in ("queued", "processing"):
            request.attempt += request.state == "processing"
            request.state, request.owner = "processing", owner
            assert (begun.outcome, begun.attempt) == ("run", request.attempt)
        else:
            assert (begun.outcome, begun.state) == ("refused", request.state)

    @rule(rid=RIDS, owner=OWNERS, other=st.sampled_from([0, 0, 1, -1]), twice=TWICE)
    def park(self, rid, owner, other, twice):
        request = self.get(rid)
        attempt = request.attempt + other
        ours = bool(request.state) and (request.attempt, request.owner) == (attempt, owner)
        moved = self.do(self.way.moves.park(rid, attempt, owner, b"ticket", 1, {}), twice)
        assert moved.ok == (ours and request.state in ("processing", "parked", "admitted", "done"))
        if ours and request.state == "processing":
            request.state = "parked"

    @rule(scheduler=SCHEDULERS, most=st.integers(1, 3), twice=TWICE)
    def claim(self, scheduler, most, twice):
        claim, parked = f"c{self.number()}", self.model.of("parked")
        move = self.way.moves.claim(scheduler, claim, NODE, "toy", most=most, tokens=1000)
        claimed = self.do(move, twice)
        assert len(claimed) == min(most, len(parked))
        for one in claimed:
            assert one.rid in parked
            self.model.requests[one.rid].state, self.model.requests[one.rid].claim = "admitted", claim

    @precondition(lambda self: self.model.of("admitted"))
    @rule(twice=TWICE)
    def lapse(self, twice):
        rid = min(self.model.of("admitted"))
        request = self.get(rid)
        is_worn = request.attempt + request.lapses >= MAX_ATTEMPTS
        self.way.let_lapse(rid)
        assert self.way.do(self.way.moves.lapse(NODE, "toy")) == ([] if is_worn else [rid])
        if twice:
            assert self.way.do(self.way.moves.lapse(NODE, "toy")) == []
        if is_worn:
            assert self.way.do(self.way.moves.worn(NODE, "toy")) == [rid]
            self.way.renew({rid: request.claim})  # it was only slow
        else:
            request.state, request.claim, request.lapses = "parked", "", request.lapses + 1

    @rule(rid=RIDS, number=st.integers(0, 60))
    def renew_and_emit(self, rid, number):
        request, claim = self.get(rid), f"c{number}"
        ours = request.state == "admitted" and request.claim == claim
        assert self.way.renew({rid: claim}) == ([] if ours else [rid])
        assert self.way.emit(rid, claim, 0) == ours

    @rule(rid=RIDS, kind=st.sampled_from(["token", "owner", "claim", "attempt"]), good=st.booleans(), twice=TWICE)
    def finish(self, rid, kind, good, twice):
        self.end(rid, kind, self.get(rid).fences[kind] or "wrong", good, twice)

    @precondition(lambda self: self.former)
    @rule(rid=RIDS, which=st.integers(0), good=st.booleans())
    def finish_late(self, rid, which, good):
        """By somebody who held it, or another request, some time ago."""
        self.end(rid, *self.former[which % len(self.former)], good, twice=False)

    def end(self, rid, kind, value, good, twice):
        request = self.get(rid)
        self.former.append((kind, value))
        end = End.done({"n": 1}) if good else End.expired()
        moved = self.do(self.way.moves.finish(rid, Fence(kind, value), end), twice)
        replay = request.ended_by == (kind, value) and request.state == end.state
        may = request.is_live and request.fences[kind] == value
        assert moved.ok == (may or replay)
        if may:
            self.model.end(rid, str(end.state))
            request.ended_by = (kind, value)

    @rule(rid=RIDS, twice=TWICE)
    def cancel(self, rid, twice):
        request = self.get(rid)
        assert self.way.cancel(rid) == request.state
        if request.is_live:
            self.model.end(rid, "cancelled")
        if twice:
            assert self.way.cancel(rid) == request.state

    @rule(rid=RIDS, twice=TWICE)
    def expire(self, rid, twice):
        request = self.get(rid)
        if not request.is_live:
            return
        self.way.pass_deadline(rid)
        assert self.way.do(self.way.moves.expire()).ended == ((rid, request.state),)
        if twice:
            assert self.way.do(self.way.moves.expire()).ended == ()
        self.model.end(rid, "expired")
        request.ended_by = ("deadline", "")

    @rule(rid=RIDS, attempt=st.integers(1, MAX_ATTEMPTS), twice=TWICE, again=st.booleans())
    def replay(self, rid, attempt, twice, again):
        request = self.get(rid)
        following = request.attempt + (not again)
        seen = Seen(request.state, attempt, request.token)
        move = self.way.moves.replay(rid, seen, following, NODE, b"%d" % self.number())
        if request.state in ("accepted", "") or not request.is_live:
            return  # the reconciler never replays these
        moved = self.do(move, twice)
        assert moved.ok == (attempt == request.attempt)
        if moved.ok:
            request.state, request.attempt, request.owner, request.claim = "queued", following, "", ""

    @precondition(lambda self: self.model.requests)
    @invariant()
    def redis_says_what_the_model_says(self):
        for rid, request in self.model.requests.items():
            record = self.way.record(rid)
            assert (record.state, record.token, record.attempt) == (request.state, request.token, request.attempt)
            assert request.state in LIVE | ENDS
        live = {rid for rid, request in self.model.requests.items() if request.is_live}
        assert set(self.way.live()) == live
        assert set(self.way.watched()) == live - self.model.of("accepted")
        assert set(self.way.waiting()) == self.model.of("parked")
        assert set(self.way.leased()) == self.model.of("admitted")
        assert set(self.way.in_line()) == self.model.of("queued")
        assert self.way.account() == (len(live), 7 * len(live))
        assert set(self.way.asked()) == set(self.model.requests)

    def teardown(self):
        """Every acceptance that ended told its caller so exactly once; those that live have told nothing."""
        told: dict[str, int] = {}
        for event in self.way.events("api-1"):
            if event["event"] == b"end":
                token = event["token"].decode()
                told[token] = told.get(token, 0) + 1
        assert told == self.model.ends
        assert set(told.values()) <= {1}


def test_every_accepted_request_has_exactly_one_end(client, moves):
    """Whatever happens in whichever order, and however often redis-py sends it."""
    bounded = settings(
        max_examples=10_000 if LONG else 40,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )

    run_state_machine_as_test(lambda: Hub(Way(client, moves)), settings=bounded)
