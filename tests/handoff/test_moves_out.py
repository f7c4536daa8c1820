"""The moves of a scheduler: claim, renew, lapse, emit. A claim is a fence too, and it does not last by itself."""

import pytest

from handoff.moves import LEASE_MS, End, Fence
from tests.support.ways import MODEL, NODE, SCHEDULER

pytestmark = pytest.mark.service


def rids(claimed):
    return [one.rid for one in claimed]


# claim


def test_a_claimed_ticket_belongs_to_one_scheduler(way):
    """It leaves the set, and the record says whose it is."""
    way.parked()

    [claimed] = way.claim("c1")

    assert (claimed.rid, claimed.claim, claimed.ticket) == ("r1", "c1", b"ticket of r1")
    assert way.state() == "admitted"
    assert (way.raw()["claim"], way.raw()["scheduler"]) == (b"c1", SCHEDULER.encode())
    assert (way.waiting(), way.leased()) == ([], ["r1"])
    assert way.record().times_ms["admitted"] >= way.record().times_ms["parked"]
    assert way.claim("c2", "scheduler-2") == []


def test_the_lease_ends_when_it_says(way, client):
    """On Redis' clock, ten seconds from the claim."""
    way.parked()
    seconds, micros = client.time()
    before = seconds * 1000 + micros // 1000

    way.claim()

    assert before + LEASE_MS <= client.zscore(way.moves.keys.leases(NODE, MODEL), "r1") <= before + LEASE_MS + 1000


def test_higher_priority_goes_first_then_the_earlier_deadline(way):
    """A later arrival with less time left overtakes; priorities beyond the range count as its ends."""
    way.parked("slow", "t1", timeout_ms=60_000)
    way.parked("soon", "t2", timeout_ms=10_000)
    way.parked("high", "t3", timeout_ms=90_000, priority=5)
    way.parked("low", "t4", timeout_ms=1_000, priority=-5)
    way.parked("top", "t5", timeout_ms=90_000, priority=100)

    assert rids(way.claim()) == ["top", "high", "soon", "slow", "low"]


def test_the_whole_range_of_priorities_keeps_its_order(way):
    """Priority and deadline share one number, which must hold both exactly."""
    for number, priority in enumerate((-100, 99, -99, 100)):
        way.parked(f"r{priority}", f"t{number}", priority=priority, timeout_ms=60_000)
    way.parked("r100-sooner", "t9", priority=100, timeout_ms=59_000)
    way.parked("r1000-later", "t10", priority=1000, timeout_ms=61_000)

    assert rids(way.claim()) == ["r100-sooner", "r100", "r1000-later", "r99", "r-99", "r-100"]


def test_a_claim_takes_at_most_what_it_asks_for(way):
    """The rest stays for the next one."""
    for number in range(3):
        way.parked(f"r{number}", f"t{number}", timeout_ms=50_000 + number)

    assert rids(way.claim("c1", most=2)) == ["r0", "r1"]
    assert rids(way.claim("c2", most=2)) == ["r2"]


def test_a_claim_stops_at_the_first_ticket_that_does_not_fit(way):
    """Small ones behind a large one wait with it, or it would be overtaken for ever."""
    for number, tokens in enumerate((4, 7, 1)):
        way.parked(f"r{number}", f"t{number}", tokens=tokens, timeout_ms=50_000 + number)

    assert rids(way.claim("c1", tokens=10)) == ["r0"]
    assert rids(way.claim("c2", tokens=8)) == ["r1", "r2"]


def test_a_ticket_that_fits_exactly_is_taken(way):
    """The room is a limit, not a distance to keep."""
    way.parked("r1", tokens=10)

    assert way.claim("c1", tokens=9) == []
    assert rids(way.claim("c2", tokens=10)) == ["r1"]


def test_a_replayed_claim_returns_the_same_tickets(way):
    """The first reply was lost on the way; nothing is claimed twice, nothing is lost."""
    way.parked("r1", "t1")
    way.parked("r2", "t2")

    first = way.claim("c1")
    way.parked("r3", "t3")
    again = way.claim("c1")

    assert sorted(rids(first)) == ["r1", "r2"]
    assert again == first
    assert way.state("r3") == "parked"


def test_a_replayed_claim_leaves_out_what_has_ended_since(way):
    """It says what the claim still holds."""
    way.parked("r1", "t1")
    way.parked("r2", "t2")
    way.claim("c1")
    way.cancel("r1")

    assert rids(way.claim("c1")) == ["r2"]


def test_a_replayed_claim_leaves_out_what_another_scheduler_has_now(way):
    """Its reply was so late that the lease has lapsed."""
    way.admitted(claim="c1")
    way.let_lapse()
    way.do(way.moves.lapse(NODE, MODEL))
    assert way.claim("c1") == []

    way.claim("c2", "scheduler-2")

    assert way.claim("c1") == []


def test_a_replay_of_an_empty_claim_is_empty(way):
    """Even when something has been parked since: the caller asks again with a new nonce."""
    assert way.claim("c1") == []
    way.parked()

    assert way.claim("c1") == []
    assert rids(way.claim("c2")) == ["r1"]


def test_expired_tickets_are_left_and_do_not_hide_those_behind_them(way):
    """The reconciler ends them and frees their blocks; until then nobody waits for it."""
    for number in range(3):
        way.parked(f"old{number}", f"t{number}", priority=50)
        way.pass_deadline(f"old{number}")
    way.parked("new", "t9")

    assert rids(way.claim("c1", most=1)) == ["new"]
    assert [way.state(f"old{number}") for number in range(3)] == ["parked"] * 3


def test_an_entry_whose_request_has_moved_on_is_dropped_from_the_set(way, client):
    """Leftovers cannot be claimed, and do not stay."""
    way.parked("r1")
    client.zadd(way.moves.keys.parked(NODE, MODEL), {"ghost": 1})
    way.queued("r2", "t2")
    client.zadd(way.moves.keys.parked(NODE, MODEL), {"r2": 2})

    assert rids(way.claim()) == ["r1"]
    assert way.waiting() == []
    assert way.state("r2") == "queued"


# renew


def test_renewing_extends_what_is_held_and_names_what_is_lost(way, client):
    """Cancelled, lapsed to another, unknown: the scheduler stops working on all of them."""
    for rid in ("kept", "cancelled", "other"):
        way.parked(rid, f"token of {rid}")
    way.claim("c1")
    way.cancel("cancelled")
    client.hset(way.moves.keys.record("other"), "claim", "c9")
    way.let_lapse("kept")

    lost = way.renew({"kept": "c1", "cancelled": "c1", "other": "c1", "unknown": "c1"})

    assert lost == ["cancelled", "other", "unknown"]
    assert client.zscore(way.moves.keys.leases(NODE, MODEL), "kept") > 1
    assert way.do(way.moves.lapse(NODE, MODEL)) == []


def test_renewing_does_not_lease_what_is_lost(way):
    """A request that ended has no lease that could lapse."""
    way.admitted()
    way.cancel()

    way.renew({"r1": "c1"})

    assert way.leased() == []


# lapse


def test_a_lease_that_runs_out_parks_the_ticket_for_the_next_scheduler(way, client):
    """Same ticket, same place in the order, a new claim; and an idle scheduler wakes."""
    way.admitted("r1", "t1", timeout_ms=50_000)
    way.parked("r2", "t2", timeout_ms=60_000)
    client.delete(way.moves.keys.wake(NODE, MODEL))
    way.let_lapse("r1")

    lapsed = way.do(way.moves.lapse(NODE, MODEL))

    assert lapsed == ["r1"]
    assert (way.state("r1"), way.record("r1").lapses) == ("parked", 1)
    assert {"claim", "scheduler"} & set(way.raw("r1")) == set()
    assert client.llen(way.moves.keys.wake(NODE, MODEL)) == 1
    assert way.leased() == []
    assert [(one.rid, one.ticket) for one in way.claim("c2", "scheduler-2")] == [
        ("r1", b"ticket of r1"),
        ("r2", b"ticket of r2"),
    ]


def test_a_scheduler_that_lost_its_lease_has_no_say_any_more(way):
    """Neither pieces nor an end of its are taken, whether or not somebody else has claimed."""
    way.admitted(claim="c1")
    way.let_lapse()
    way.do(way.moves.lapse(NODE, MODEL))

    assert not way.emit(claim="c1")
    assert way.renew({"r1": "c1"}) == ["r1"]

    way.claim("c2", "scheduler-2")
    assert not way.emit(claim="c1")
    assert way.renew({"r1": "c1"}) == ["r1"]
    assert way.emit(claim="c2")


def test_a_lease_that_still_runs_does_not_lapse(way):
    """Nor does one whose request has ended."""
    way.admitted("r1", "t1", claim="c1")
    way.admitted("r2", "t2", claim="c2")
    way.cancel("r2")
    way.let_lapse("r2")  # what a crash between two moves could leave

    assert way.do(way.moves.lapse(NODE, MODEL)) == []
    assert (way.state("r1"), way.state("r2")) == ("admitted", "cancelled")
    assert way.leased() == ["r1"]


def test_a_replayed_lapse_finds_nothing(way):
    """The first one did it."""
    way.admitted()
    way.let_lapse()

    assert way.do(way.moves.lapse(NODE, MODEL)) == ["r1"]
    assert way.do(way.moves.lapse(NODE, MODEL)) == []
    assert way.record().lapses == 1


# worn


def test_the_third_scheduler_that_dies_over_a_request_is_the_last(way):
    """It is not parked again, so no fourth one claims it; it stays named until somebody ends it."""
    way.parked()
    for number in (1, 2, 3):
        assert [one.rid for one in way.claim(f"c{number}", f"s{number}")] == ["r1"]
        assert way.do(way.moves.worn(NODE, MODEL)) == []
        way.let_lapse()
        assert way.do(way.moves.lapse(NODE, MODEL)) == (["r1"] if number < 3 else [])

    assert [way.do(way.moves.worn(NODE, MODEL)) for _ in range(2)] == [["r1"], ["r1"]]
    assert way.do(way.moves.lapse(NODE, MODEL)) == []
    assert (way.claim("c4", "s4"), way.state(), way.record().tries) == ([], "admitted", 3)
    assert way.do(way.moves.finish("r1", Fence.seen(way.record().seen), End.expired())).ok
    assert way.do(way.moves.worn(NODE, MODEL)) == []


def test_a_scheduler_that_comes_back_before_the_end_is_written_goes_on(way):
    """It was only slow, and nobody else has been given the ticket."""
    way.parked()
    for number in (1, 2, 3):
        way.claim(f"c{number}")
        way.let_lapse()
        way.do(way.moves.lapse(NODE, MODEL))

    assert way.renew({"r1": "c3"}) == []

    assert way.do(way.moves.worn(NODE, MODEL)) == []


def test_attempts_of_workers_count_with_the_schedulers(way):
    """Two workers have died, so the first scheduler is the third that tries."""
    way.queued()
    way.begin(owner="w1")
    way.begin(owner="w2", dead="w1")
    way.begin(owner="w3", dead="w2")
    way.park(attempt=3, owner="w3")
    way.claim()
    way.let_lapse()

    assert way.do(way.moves.lapse(NODE, MODEL)) == []
    assert way.do(way.moves.worn(NODE, MODEL)) == ["r1"]


# emit


def test_a_piece_reaches_the_api_process_that_waits(way):
    """With the token of the acceptance, the claim and its number, so that it can be told from others."""
    way.listen("api-1")
    way.admitted(reply_to="api-1")

    assert way.emit(number=0, piece=b"one")
    assert way.emit(number=1, piece=b"two")

    assert way.events("api-1") == [
        {"rid": b"r1", "event": b"piece", "token": b"t1", "claim": b"c1", "seq": b"0", "piece": b"one"},
        {"rid": b"r1", "event": b"piece", "token": b"t1", "claim": b"c1", "seq": b"1", "piece": b"two"},
    ]


def test_a_piece_that_is_sent_again_is_told_once(way):
    """redis-py repeats what may not have arrived; a new claim counts from the beginning."""
    way.listen("api-1")
    way.admitted(reply_to="api-1")

    assert [way.emit(number=number) for number in (0, 0, 1, 0, 1, 2)] == [True] * 6
    way.let_lapse()
    way.do(way.moves.lapse(NODE, MODEL))
    way.claim("c2")
    assert [way.emit(claim="c2", number=number) for number in (0, 0)] == [True] * 2

    assert [(one["claim"], one["seq"]) for one in way.events("api-1")] == [
        (b"c1", b"0"),
        (b"c1", b"1"),
        (b"c1", b"2"),
        (b"c2", b"0"),
    ]


def test_the_time_of_the_first_piece_is_kept(way):
    """Of the first, not of the last."""
    way.admitted()
    way.emit(number=0)
    first = way.record().times_ms["first_token"]
    way.client.hset(way.moves.keys.record("r1"), "t_first_token", first - 5)

    way.emit(number=1)

    assert way.record().times_ms["first_token"] == first - 5


def test_a_stream_that_nobody_reads_is_not_made(way, client):
    """When the API process has gone, so has its caller; its stream must not come back for ever."""
    way.admitted(reply_to="api-gone")

    assert way.emit()
    way.cancel()

    assert not client.exists(way.moves.keys.out("api-gone"))


def test_a_request_without_a_waiting_caller_tells_nobody(way, client):
    """An asynchronous request is asked about later."""
    way.admitted(reply_to="")

    assert way.emit()

    assert list(client.scan_iter("test:out:*")) == []


@pytest.mark.parametrize("state", ["queued", "processing", "parked"])
def test_only_an_admitted_request_has_pieces(way, state):
    """Whatever claim is named, an empty one included."""
    way.listen("api-1")
    way.to(state, reply_to="api-1")

    assert not way.emit(claim="c1")
    assert not way.emit(claim="")
    assert not way.emit(rid="unknown")
    assert way.events("api-1") == []


def test_what_has_ended_has_no_more_pieces(way):
    """Not even from the claim that ended it: the end is the last event."""
    way.listen("api-1")
    way.admitted(reply_to="api-1")
    way.do(way.moves.finish("r1", Fence.claim("c1"), End.done({})))

    assert not way.emit(claim="c1")
    assert [event["event"] for event in way.events("api-1")] == [b"end"]
