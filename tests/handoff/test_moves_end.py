"""The ends: every accepted request has exactly one, written by whoever holds it; and the second chances before it."""

import msgpack
import pytest

from forebay.errors import Problem
from forebay.states import State
from handoff.moves import RECHECK_MS, RETENTION_MS, End, Fence, Seen
from handoff.slot import Slot
from tests.support.ways import MODEL, NODE, WORKER, problem_of

pytestmark = pytest.mark.service

LIVE = ["accepted", "queued", "processing", "parked", "admitted"]
DONE = End.done({"text": "ok"})
FAULT = End.of(Problem("broken", "it broke", 500))
HOLDER = {
    "accepted": Fence.token("t1"),
    "processing": Fence.owner(1, WORKER),
    "admitted": Fence.claim("c1"),
}


def finish(way, fence, end=DONE, rid="r1"):
    return way.do(way.moves.finish(rid, fence, end))


def seen(way, rid="r1"):
    return way.record(rid).seen


# finish


@pytest.mark.parametrize("state", HOLDER)
def test_whoever_holds_a_request_ends_it(way, client, state):
    """The API before it is queued, the worker while it processes, the scheduler while it runs."""
    way.listen("api-1")
    way.to(state, reply_to="api-1")

    assert finish(way, HOLDER[state]).ok

    record, key = way.record(), way.moves.keys.record("r1")
    assert (record.state, record.result, record.problem) == (State.DONE, {"text": "ok"}, None)
    assert record.body == b""
    assert "ticket" not in way.raw()
    assert record.times_ms["end"] >= record.times_ms["accepted"]
    assert 0 < client.pttl(key) <= RETENTION_MS
    assert (way.live(), way.waiting(), way.leased()) == ([], [], [])
    [event] = way.events("api-1")
    assert (event["event"], event["rid"], event["token"], event["state"]) == (b"end", b"r1", b"t1", b"done")
    assert (msgpack.unpackb(event["result"]), problem_of(event)) == ({"text": "ok"}, None)


@pytest.mark.parametrize("state", LIVE)
def test_the_reconciler_ends_a_request_that_is_as_it_saw_it(way, state):
    """Whatever the state: it holds nothing, so it says what it saw."""
    way.to(state)

    assert finish(way, Fence.seen(seen(way)), End.expired()).ok

    assert way.state() == "expired"
    assert way.record().problem.status == 504


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("kind", ["token", "owner", "claim", "attempt"])
def test_nobody_else_ends_a_request(way, state, kind):
    """Each fence holds in its own state only, and only with the current value."""
    right = {name: fence.kind for name, fence in HOLDER.items()}
    values = {
        "token": ["t2", "", *([] if right.get(state) == "token" else ["t1"])],
        "owner": [f"2/{WORKER}", "1/w2", "1/", "", *([] if right.get(state) == "owner" else [f"1/{WORKER}"])],
        "claim": ["c2", "", *([] if right.get(state) == "claim" else ["c1"])],
        "attempt": [f"{state}/2/t1", f"{state}/1/t2", f"{state}/1", "done/1/t1", ""],
    }
    way.to(state)
    before = way.raw()

    for value in values[kind]:
        moved = finish(way, Fence(kind, value))
        assert (moved.ok, moved.state) == (False, state), (kind, value)

    assert way.raw() == before


@pytest.mark.parametrize("state", HOLDER)
def test_a_replayed_end_is_confirmed_and_written_once(way, state):
    """The same fence, the same end: a replay. Anything else came too late."""
    way.listen("api-1")
    way.to(state, reply_to="api-1")

    assert finish(way, HOLDER[state]).ok
    assert finish(way, HOLDER[state]).ok
    other_end, other_fence = finish(way, HOLDER[state], FAULT), finish(way, Fence.claim("c9"))

    assert (other_end.ok, other_end.state) == (False, "done")
    assert (other_fence.ok, other_fence.state) == (False, "done")
    assert len(way.events("api-1")) == 1
    assert way.record().result == {"text": "ok"}


def test_an_unknown_request_has_no_end(way):
    """Nor does one come into being."""
    assert (finish(way, Fence.token("t1")).ok, finish(way, Fence.token("t1")).state) == (False, "")
    assert way.raw() == {}


def test_an_end_says_whose_fault_it_was(way):
    """A caller's mistake is rejected, ours is failed; the problem is in the record and on its way."""
    way.listen("api-1")
    way.processing("r1", "t1", reply_to="api-1")
    way.processing("r2", "t2", reply_to="api-1")

    finish(way, Fence.owner(1, WORKER), End.of(Problem("bad_image", "image_data[1] …", 400, "image_data[1]")), "r1")
    finish(way, Fence.owner(1, WORKER), FAULT, "r2")

    assert [way.state("r1"), way.state("r2")] == ["rejected", "failed"]
    assert way.record("r1").problem == Problem("bad_image", "image_data[1] …", 400, "image_data[1]")
    assert [problem_of(event) for event in way.events("api-1")] == ["bad_image", "broken"]


def test_a_reused_id_is_safe_from_whoever_saw_the_request_before_it(way):
    """Same id, same state, same attempt: the token tells them apart."""
    way.queued("r1", "t1")
    before = seen(way)
    way.cancel()
    way.queued("r1", "t2")

    assert not finish(way, Fence.seen(before), End.expired()).ok
    assert way.do(way.moves.replay("r1", before, 2, NODE, b"again")).state == "queued"
    assert (way.state(), way.record().token, way.record().attempt) == ("queued", "t2", 1)


# cancel


@pytest.mark.parametrize("state", LIVE)
def test_a_request_is_cancelled_in_every_state(way, state):
    """The answer is the state before; only a parked block has nobody who frees it, so the janitor gets its ticket."""
    way.listen("api-1")
    way.to(state, reply_to="api-1")

    assert way.cancel() == state

    record = way.record()
    assert (record.state, record.problem.code, record.problem.status) == ("cancelled", "cancelled", 499)
    assert way.purged() == ([b"ticket of r1"] if state == "parked" else [])
    assert (way.live(), way.waiting(), way.leased()) == ([], [], [])
    assert [problem_of(event) for event in way.events("api-1")] == ["cancelled"]


@pytest.mark.parametrize("state", LIVE)
def test_cancelling_again_is_harmless(way, state):
    """The same answer each time, one event, one ticket to purge."""
    way.listen("api-1")
    way.to(state, reply_to="api-1")
    way.cancel()
    before = way.raw()

    assert [way.cancel(), way.cancel()] == ["cancelled", "cancelled"]

    assert way.raw() == before
    assert len(way.events("api-1")) == 1
    assert len(way.purged()) <= 1


def test_a_cancellation_may_mean_one_acceptance_alone(way):
    """A caller that leaves late must not cancel what the same id means by now."""
    way.queued(token="t1")
    way.cancel()
    way.queued(token="t2")

    assert way.do(way.moves.cancel("r1", "t1")) == ""
    assert way.state() == "queued"
    assert way.do(way.moves.cancel("r1", "t2")) == "queued"
    assert way.state() == "cancelled"


def test_cancelling_what_ended_or_never_was_changes_nothing(way):
    """An end stays the end."""
    way.processing()
    finish(way, HOLDER["processing"])

    assert way.cancel("r1") == "done"
    assert way.cancel("unknown") == ""

    assert way.state() == "done"
    assert way.raw("unknown") == {}


def test_a_parked_request_that_the_reconciler_ends_gives_its_ticket_to_the_janitor(way):
    """As with a cancellation: nobody else will free the block."""
    way.parked()

    finish(way, Fence.seen(seen(way)), End.expired())

    assert way.purged() == [b"ticket of r1"]


# replay


@pytest.mark.parametrize("state", ["queued", "processing", "parked", "admitted"])
def test_a_request_is_queued_again_as_it_was_seen(way, client, state):
    """On another node, under the next attempt, with nothing left of the place it comes from."""
    way.to(state)
    way.make_due()

    moved = way.do(way.moves.replay("r1", seen(way), 2, "n2", b"again"))

    assert moved.ok
    record = way.record()
    assert (record.state, record.attempt, record.node, record.owner) == ("queued", 2, "n2", "")
    assert record.body == b"body"
    assert way.messages("n2") == [b"again"]
    assert (way.waiting(), way.leased()) == ([], [])
    assert {"ticket", "claim", "scheduler"} & set(way.raw()) == set()
    seconds, _ = client.time()
    assert client.zscore(way.moves.keys.watch("n2", MODEL), "r1") >= seconds * 1000 + RECHECK_MS - 1000
    assert way.watched() == []


def test_the_former_holder_has_no_say_after_a_replay(way):
    """Neither the worker of the old attempt, nor the scheduler of the old claim."""
    way.admitted()
    way.do(way.moves.replay("r1", seen(way), 2, NODE, b"again"))

    assert not way.park(attempt=1).ok
    assert not way.emit(claim="c1")
    assert not finish(way, Fence.claim("c1")).ok
    assert not finish(way, Fence.owner(1, WORKER)).ok
    assert way.begin(owner="w2").attempt == 2


def test_a_replay_that_redis_py_repeats_queues_one_message(way):
    """Also when the attempt stays the same, as for a message that got lost."""
    way.queued()
    move = way.moves.replay("r1", seen(way), 1, NODE, b"again")

    assert [way.do(move).ok, way.do(move).ok] == [True, True]
    assert way.messages() == [b"again", b"message of r1"]

    move = way.moves.replay("r1", seen(way), 2, NODE, b"once more")
    assert [way.do(move).ok, way.do(move).ok] == [True, True]
    assert way.messages() == [b"once more", b"again", b"message of r1"]


@pytest.mark.parametrize("change", ["begin", "cancel", "attempt", "unknown"])
def test_a_request_that_moved_meanwhile_is_not_queued_again(way, client, change):
    """The reconciler looks, decides and acts in three steps; the record has the last word."""
    way.queued()
    before = seen(way)
    if change == "begin":
        way.begin()
    elif change == "cancel":
        way.cancel()
    elif change == "attempt":
        client.hset(way.moves.keys.record("r1"), "attempt", 2)
    else:
        client.delete(way.moves.keys.record("r1"))
    state = way.raw().get("state", b"").decode()

    moved = way.do(way.moves.replay("r1", before, 2, NODE, b"again"))

    assert (moved.ok, moved.state) == (False, state)
    assert b"again" not in way.messages()


# resend


def resend(way, message=b"again", before=None):
    return way.do(way.moves.resend("r1", before or seen(way), message))


def test_a_lost_message_is_replaced_and_is_the_next_to_be_taken(way):
    """In its place in line, under the same attempt; a call that redis-py repeats queues one."""
    way.queued("r1", "t1")
    way.queued("r2", "t2")
    way.client.lrem(way.moves.keys.queue(NODE, "text"), 0, b"message of r1")
    before = way.record()

    assert [resend(way).ok for _ in range(2)] == [True, True]

    assert way.messages() == [b"message of r2", b"again"]
    record = way.record()
    assert (record.resent, record.attempt, record.times_ms) == (1, 1, before.times_ms)
    assert way.in_line() == ["r1", "r2"]
    assert not way.do(way.moves.is_lost("r1"))


def test_a_message_that_is_somewhere_is_not_replaced(way):
    """On its queue or in a hand; each one that was sent again is looked for in the place of the one before."""
    way.queued()
    slot = Slot(way.moves.keys, NODE, "worker-life")
    assert not resend(way).ok
    way.do(slot.take(["text"]))
    assert not resend(way).ok
    way.client.delete(slot.list_of("text"))
    assert resend(way).ok

    assert not resend(way, b"once more").ok
    assert (way.messages(), way.record().resent) == ([b"again"], 1)


@pytest.mark.parametrize("state", ["accepted", "processing", "parked", "admitted"])
def test_only_a_queued_request_has_a_message_to_lose(way, state):
    """Whoever has begun needs none, and its record no longer has it."""
    way.to(state)
    way.client.delete(way.moves.keys.queue(NODE, "text"))

    assert not way.do(way.moves.is_lost("r1"))
    assert resend(way).state == state
    assert (way.messages(), "message" in way.raw()) == ([], False)


def test_a_message_of_what_has_moved_since_is_not_sent(way):
    """Another attempt, or another acceptance of the same id."""
    way.queued()
    before = seen(way)
    way.do(way.moves.replay("r1", before, 2, NODE, b"second"))
    way.client.delete(way.moves.keys.queue(NODE, "text"))

    assert not resend(way, before=before).ok
    assert resend(way).ok


def test_what_was_seen_is_part_of_the_record(way):
    """State, attempt and token, as one value."""
    way.processing()

    assert seen(way) == Seen("processing", 1, "t1")
