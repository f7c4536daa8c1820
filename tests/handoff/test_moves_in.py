"""The moves on the way in: accept, enqueue, begin, park. Each checks its fence, and a replay changes nothing."""

import time

import pytest

from forebay.task import MAX_MESSAGE_BYTES
from handoff.moves import MAX_ATTEMPTS, RECHECK_MS, End, Fence
from tests.support.ways import MODEL, NODE, WORKER

pytestmark = pytest.mark.service

LIVE = ["accepted", "queued", "processing", "parked", "admitted"]


def now_ms(client):
    seconds, micros = client.time()
    return seconds * 1000 + micros // 1000


# accept


def test_an_accepted_request_has_a_record_and_a_deadline(way, client):
    """The record is the truth from the first step on, and its deadline is known to whoever ends it."""
    before = now_ms(client)

    accepted = way.accept(priority=7, timeout_ms=5000, reply_to="api-1")

    after = now_ms(client)
    assert accepted.outcome == "ok"
    assert before + 5000 <= accepted.deadline_ms <= after + 5000
    record = way.record()
    assert (record.state, record.attempt, record.token, record.model) == ("accepted", 1, "t1", MODEL)
    assert (record.kind, record.priority, record.deadline_ms) == ("generate", 7, accepted.deadline_ms)
    assert before <= record.times_ms["accepted"] <= after
    assert client.zscore(way.moves.keys.due, "r1") == accepted.deadline_ms
    assert way.watched() == []  # it is no node's yet
    assert client.ttl(way.moves.keys.record("r1")) == -1  # a live record never expires


def test_a_replayed_acceptance_answers_the_same(way, client):
    """redis-py sends a write again after a time-out; the caller must not get a 409 for its own request."""
    first = way.accept()
    client.hset(way.moves.keys.record("r1"), "mark", "still the same record")

    again = way.accept()

    assert again == first
    assert way.raw()["mark"] == b"still the same record"
    assert way.live() == ["r1"]


@pytest.mark.parametrize("state", LIVE)
def test_an_id_that_runs_is_a_duplicate(way, state):
    """Across processes, whatever the state; the one that runs is unharmed."""
    way.to(state)
    before = way.raw()

    second = way.accept(token="t2")

    assert (second.outcome, second.state) == ("duplicate", state)
    assert way.raw() == before


def test_an_id_may_be_used_again_after_its_end(way, client):
    """With a record of its own: nothing of the old one shines through."""
    way.parked()
    way.cancel()

    again = way.accept(token="t2")

    assert again.outcome == "ok"
    record = way.record()
    assert (record.state, record.token, record.attempt) == ("accepted", "t2", 1)
    assert (record.problem, record.worker_ms, set(record.times_ms)) == (None, {}, {"accepted"})
    assert client.ttl(way.moves.keys.record("r1")) == -1
    assert way.live() == ["r1"]


def test_a_full_deployment_accepts_nothing_more(way):
    """The limit counts live requests, names them, and leaves no trace of the refused one."""
    assert way.accept("r1", max_live=2).outcome == "ok"
    assert way.accept("r2", max_live=2).outcome == "ok"

    third = way.accept("r3", max_live=2)

    assert (third.outcome, third.live) == ("busy", 2)
    assert way.raw("r3") == {}
    way.cancel("r1")
    assert way.accept("r3", max_live=2).outcome == "ok"


def test_a_duplicate_of_a_full_deployment_is_a_duplicate(way):
    """What can be mended is told first."""
    way.accept("r1", max_live=1)

    assert way.accept("r1", token="t2", max_live=1).outcome == "duplicate"


# enqueue


def test_queuing_writes_record_and_queue_in_one_step(way, client):
    """A request is never queued without a message, nor has a message without being queued."""
    way.accept()

    moved = way.enqueue(lane="bulk")

    assert moved.ok
    assert way.messages(lane="bulk") == [b"message of r1"]
    record = way.record()
    assert (record.state, record.node, record.lane, record.body) == ("queued", NODE, "bulk", b"body")
    assert record.times_ms["queued"] >= record.times_ms["accepted"]
    assert client.zscore(way.moves.keys.watch(NODE, MODEL), "r1") == record.times_ms["queued"] + RECHECK_MS


def test_a_replayed_enqueue_queues_once(way):
    """Whatever has become of the request meanwhile."""
    way.accept()

    assert way.enqueue().ok
    assert way.enqueue().ok
    way.begin()
    assert way.enqueue().ok

    assert way.messages() == [b"message of r1"]
    assert way.state() == "processing"


def test_a_request_that_ended_or_is_unknown_or_anothers_is_not_queued(way):
    """The state that stood against it comes back."""
    assert (way.enqueue().ok, way.enqueue().state) == (False, "")

    way.accept()
    assert (way.enqueue(token="other").ok, way.enqueue(token="other").state) == (False, "accepted")

    way.cancel()
    assert (way.enqueue().ok, way.enqueue().state) == (False, "cancelled")
    assert way.messages() == []


# begin


def test_a_worker_begins_a_queued_request(way):
    """It learns its attempt; the body comes along only when the message had no room for it."""
    way.queued("r1")
    way.queued("r2", "t2")

    plain, with_body = way.begin("r1"), way.begin("r2", "t2", want_body=True)

    assert (plain.outcome, plain.attempt, plain.body) == ("run", 1, b"")
    assert (with_body.outcome, with_body.attempt, with_body.body) == ("run", 1, b"body")
    record = way.record()
    assert (record.state, record.owner) == ("processing", WORKER)
    assert record.times_ms["processing"] >= record.times_ms["queued"]


def test_a_replayed_begin_answers_the_same(way):
    """The same owner may ask again, before and after a takeover."""
    way.queued()

    assert [way.begin().attempt for _ in range(3)] == [1, 1, 1]
    assert [way.begin(owner="w2", dead=WORKER).attempt for _ in range(3)] == [2, 2, 2]


def test_a_second_worker_finds_the_request_busy(way):
    """And learns who has it; a message that was delivered twice changes nothing."""
    way.processing()

    second = way.begin(owner="w2")

    assert (second.outcome, second.owner) == ("busy", WORKER)
    assert (way.record().owner, way.record().attempt) == (WORKER, 1)


def test_a_worker_that_was_seen_dead_is_succeeded_under_the_next_attempt(way):
    """The attempt is the fence: whatever the dead one still sends is refused."""
    way.processing()

    taken = way.begin(owner="w2", dead=WORKER)

    assert (taken.outcome, taken.attempt) == ("run", 2)
    assert not way.park(attempt=1, owner=WORKER).ok
    assert way.park(attempt=2, owner="w2").ok


def test_only_the_very_owner_that_was_seen_dead_is_succeeded(way):
    """Another one has taken over meanwhile, and lives."""
    way.processing()
    way.begin(owner="w2", dead=WORKER)

    late = way.begin(owner="w3", dead=WORKER)

    assert (late.outcome, late.owner) == ("busy", "w2")


def test_a_request_that_kills_its_workers_is_abandoned_after_three(way):
    """It runs three times, and no fourth."""
    way.queued()
    outcomes = [way.begin(owner="w1")]
    outcomes += [way.begin(owner=f"w{n + 1}", dead=f"w{n}") for n in (1, 2, 3)]

    assert [(begun.outcome, begun.attempt) for begun in outcomes] == [
        ("run", 1),
        ("run", 2),
        ("run", 3),
        ("abandoned", 3),
    ]
    assert MAX_ATTEMPTS == 3
    assert way.record().owner == "w3"  # the end is written by whoever heard 'abandoned'


def test_a_scheduler_that_died_over_it_counts_as_one_of_the_three(way):
    """Whatever has cost it an attempt: it is tried three times in all."""
    way.admitted()
    way.let_lapse()
    way.do(way.moves.lapse(NODE, MODEL))
    way.do(way.moves.replay("r1", way.record().seen, 2, NODE, b"again"))

    assert way.begin(owner="w1").outcome == "run"
    assert way.begin(owner="w2", dead="w1").outcome == "abandoned"
    assert way.record().tries == MAX_ATTEMPTS


@pytest.mark.parametrize("state", ["queued", "processing"])
def test_a_request_past_its_deadline_is_not_begun(way, state):
    """Nobody wants the answer; the worker learns what it needs to write the end."""
    way.to(state)
    way.pass_deadline()

    begun = way.begin(owner="w2", dead=WORKER)

    assert (begun.outcome, begun.state, begun.attempt) == ("expired", state, 1)
    assert way.state() == state


def test_the_deadline_is_a_moment_of_redis_clock(way):
    """A request with a millisecond to live is begun by nobody a moment later."""
    way.queued(timeout_ms=1)
    time.sleep(0.01)

    assert way.begin().outcome == "expired"


@pytest.mark.parametrize(
    ("state", "refused"), [("accepted", "accepted"), ("parked", "parked"), ("admitted", "admitted")]
)
def test_only_what_waits_is_begun(way, state, refused):
    """A late message of a request that has moved on is dropped."""
    way.to(state)

    begun = way.begin(owner="w2", dead=WORKER)

    assert (begun.outcome, begun.state) == ("refused", refused)


def test_an_unknown_ended_or_reused_request_is_not_begun(way):
    """The token says which acceptance of an id a message belongs to."""
    assert (way.begin().outcome, way.begin().state) == ("refused", "")

    way.queued()
    assert (way.begin(token="other").outcome, way.begin(token="other").state) == ("refused", "queued")

    way.cancel()
    assert (way.begin().outcome, way.begin().state) == ("refused", "cancelled")

    way.queued(token="t2")
    assert way.begin(token="t1").outcome == "refused"
    assert way.begin(token="t2").outcome == "run"


# park


def test_a_parked_ticket_waits_for_a_scheduler_and_wakes_it(way, client):
    """Ticket, size and timings are in the record; an idle scheduler's wait ends."""
    way.processing()

    assert way.park(tokens=12).ok

    record, raw = way.record(), way.raw()
    assert record.state == "parked"
    assert (raw["ticket"], raw["tokens"], record.worker_ms) == (b"ticket of r1", b"12", {"decode": 1.5})
    assert record.times_ms["parked"] >= record.times_ms["processing"]
    assert way.waiting() == ["r1"]
    assert client.lrange(way.moves.keys.wake(NODE, MODEL), 0, -1) == [b"1"]


def test_many_parked_tickets_leave_one_token_to_wake(way, client):
    """A scheduler that is away does not come back to a list of a thousand."""
    for number in range(5):
        way.parked(f"r{number}", f"t{number}")

    assert client.llen(way.moves.keys.wake(NODE, MODEL)) == 1


def test_a_replayed_park_is_confirmed_however_far_the_request_has_come(way):
    """The worker must not free a block that a scheduler has taken."""
    way.parked()
    assert way.park().ok

    way.claim()
    assert way.park().ok
    assert way.state() == "admitted"

    way.do(way.moves.finish("r1", Fence.claim("c1"), End.done({"text": "ok"})))
    assert way.park().ok
    assert way.state() == "done"
    assert way.waiting() == []


@pytest.mark.parametrize(("attempt", "owner"), [(2, WORKER), (1, "w2"), (0, WORKER)])
def test_only_the_current_attempt_and_owner_park(way, attempt, owner):
    """The caller frees its block when refused."""
    way.processing()

    moved = way.park(attempt=attempt, owner=owner)

    assert (moved.ok, moved.state) == (False, "processing")
    assert way.waiting() == []


def test_what_ended_is_not_parked(way):
    """Cancelled while it was processed: the late result is dropped."""
    way.processing()
    way.cancel()

    moved = way.park()

    assert (moved.ok, moved.state) == (False, "cancelled")
    assert way.waiting() == []
    assert "ticket" not in way.raw()


def test_an_unknown_request_is_not_parked(way):
    """Its record may have expired long ago."""
    assert (way.park().ok, way.park().state) == (False, "")


def test_a_body_of_any_size_waits_in_the_record(way):
    """What does not fit into a message is fetched with the claim."""
    large = b"a" * (2 * MAX_MESSAGE_BYTES)
    way.accept()
    way.enqueue(body=large)

    assert way.begin(want_body=True).body == large
