"""What a tenant has under way, and what it may have: counted where requests are accepted and ended."""

from functools import partial

import pytest

from handoff.move_replies import Excess, Limit
from handoff.moves import RETENTION_MS, End, Fence, Quota
from tests.support.ways import Way

pytestmark = pytest.mark.service

ACME = {"tenant": "acme"}


def refused(way: Way, rid: str, **more):
    """Why a request is beyond its tenant's limit."""
    accepted = way.accept(rid, f"t-{rid}", **{**ACME, **more})
    assert accepted.outcome == "over"
    return accepted.excess


def test_a_request_is_on_its_tenants_account_until_its_end(way):
    """Whichever end it is, and once."""
    way.accept("acme/r1", size_bytes=100, **ACME)
    way.accept("acme/r1", size_bytes=100, **ACME)  # redis-py sends it again
    way.accept("other/r1", tenant="other", size_bytes=7)
    assert (way.account("acme"), way.account("other")) == ((1, 100), (1, 7))

    way.cancel("acme/r1")
    way.cancel("acme/r1")

    assert (way.account("acme"), way.account("other")) == ((0, 0), (1, 7))


def test_a_tenant_has_no_more_live_requests_than_it_may(way):
    """Both numbers are told, nothing is written, and the next may come once one has ended."""
    two = {"quota": Quota(live=2)}
    assert [way.accept(f"acme/r{n}", **ACME, **two).outcome for n in range(2)] == ["ok", "ok"]

    excess = refused(way, "acme/r2", **two)

    assert (excess.limit, excess.wanted, excess.allowed) == (Limit.LIVE, 2, 2)
    assert way.live() == ["acme/r0", "acme/r1"]
    assert way.accept("other/r", tenant="other", **two).outcome == "ok"
    way.cancel("acme/r0")
    assert way.accept("acme/r2", **ACME, **two).outcome == "ok"


def test_a_tenant_has_no_more_bytes_under_way_than_it_may(way):
    """The request counts that would go beyond it; one that fits may still come."""
    hundred = {"quota": Quota(size_bytes=100)}
    assert way.accept("acme/r1", size_bytes=60, **ACME, **hundred).outcome == "ok"

    excess = refused(way, "acme/r2", size_bytes=41, **hundred)

    assert (excess.limit, excess.wanted, excess.allowed) == (Limit.BYTES, 101, 100)
    assert way.accept("acme/r3", size_bytes=40, **ACME, **hundred).outcome == "ok"


def test_what_was_fetched_later_counts_as_well(way):
    """Nothing is queued that goes beyond the limit, and nothing of it is counted; what fits is."""
    assert way.accept("acme/r1", size_bytes=60, **ACME).outcome == "ok"
    queue = partial(way.moves.enqueue, "acme/r1", "t1", b"", "n1", "text", b"message", most_bytes=100)

    moved = way.do(queue(size_bytes=101))
    assert (moved.ok, moved.excess) == (False, Excess(Limit.BYTES, 101, 100.0, 1000))
    assert (way.account("acme"), way.state("acme/r1")) == ((1, 60), "accepted")

    assert way.do(queue(size_bytes=100)).ok
    assert way.account("acme") == (1, 100)


def test_a_tenant_asks_no_more_often_than_it_may(way):
    """A second's worth may come at once; the next has its time told, and comes through after it."""
    three = {"quota": Quota(per_second=3)}
    assert [way.accept(f"acme/r{n}", f"t{n}", **ACME, **three).outcome for n in range(3)] == ["ok"] * 3

    excess = refused(way, "acme/r3", **three)

    assert (excess.limit, excess.allowed) == (Limit.RATE, 3)
    assert 0 < excess.wait_ms <= 334
    way.client.hincrbyfloat(way.moves.keys.tenant("acme"), "next", -excess.wait_ms)
    assert way.accept("acme/r3", "t3", **ACME, **three).outcome == "ok"


def test_a_rate_below_one_a_second_lets_one_through(way):
    """And the next after its share of the time, not never."""
    slow = {"quota": Quota(per_second=0.5)}
    assert way.accept("acme/r0", **ACME, **slow).outcome == "ok"

    assert 1000 < refused(way, "acme/r1", **slow).wait_ms <= 2000


@pytest.mark.parametrize("before", ["a lower rate", "a clock that was ahead"])
def test_a_rate_holds_from_now_on_whatever_was_before(way, before):
    """A tenant whose limit is raised need not wait as long as the old one had it."""
    way.accept("acme/r0", **ACME, quota=Quota(per_second=0.001))
    if before == "a clock that was ahead":
        way.client.hincrby(way.moves.keys.tenant("acme"), "next", 3_600_000)

    assert refused(way, "acme/r1", quota=Quota(per_second=10)).wait_ms <= 100
    assert way.accept("other/r0", tenant="other", quota=Quota(per_second=10)).outcome == "ok"


def test_what_is_refused_costs_no_share_of_the_rate(way):
    """Asking too early does not push the next one further away."""
    one = {"quota": Quota(per_second=1)}
    way.accept("acme/r0", **ACME, **one)

    waits = [refused(way, f"acme/r{n}", **one).wait_ms for n in range(1, 4)]

    assert max(waits) <= 1000


def test_a_duplicate_is_told_as_one_also_beyond_the_limit(way):
    """The caller needs to know that its request is running."""
    way.accept("acme/r1", **ACME, quota=Quota(live=1))

    assert way.accept("acme/r1", "t2", **ACME, quota=Quota(live=1)).outcome == "duplicate"


def test_an_id_that_is_used_again_is_on_the_account_once(way):
    """Ended, and accepted anew."""
    for token in ("t1", "t2"):
        way.accept("acme/r1", token, size_bytes=5, **ACME)
        if token == "t1":
            way.cancel("acme/r1")

    assert way.account("acme") == (1, 5)
    assert way.asked("acme") == ["acme/r1"]


def test_what_ended_long_ago_is_forgotten(way):
    """The list of a tenant does not grow for ever."""
    for rid in ("acme/old", "acme/new"):
        way.accept(rid, **ACME)
    way.cancel("acme/old")
    way.client.zincrby(way.moves.keys.ended("acme"), -RETENTION_MS - 1000, "acme/old")

    way.cancel("acme/new")

    assert way.asked("acme") == ["acme/new"]


def test_what_has_ended_is_forgotten_also_beside_a_long_request(way):
    """That it has ended is known for as long as anything of its tenant is live."""
    for rid in ("acme/long", "acme/short"):
        way.accept(rid, **ACME)

    way.cancel("acme/short")

    assert way.client.pttl(way.moves.keys.ended("acme")) == -1
    way.client.zincrby(way.moves.keys.ended("acme"), -RETENTION_MS - 1000, "acme/short")
    way.accept("acme/next", **ACME)
    way.cancel("acme/next")
    assert way.asked("acme") == ["acme/long", "acme/next"]


def test_the_list_of_a_tenant_that_asks_no_more_goes_by_itself(way):
    """Nothing of it stays in Redis but two numbers."""
    way.accept("acme/r1", **ACME)
    assert way.client.ttl(way.moves.keys.asked("acme")) == -1

    way.do(way.moves.finish("acme/r1", Fence.token("t1"), End.expired()))

    assert 0 < way.client.pttl(way.moves.keys.asked("acme")) <= RETENTION_MS
    assert 0 < way.client.pttl(way.moves.keys.ended("acme")) <= RETENTION_MS
