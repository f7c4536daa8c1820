"""Workers that want the same items, or the same room, at once: nobody makes twice, waits for ever, or harms another."""

from __future__ import annotations

import threading
import time

import pytest

from forebay.media import digest_of
from forebay.ticket import Ticket
from handoff.pool import FeatureCache
from tests.support.caching import GREEN, RED, Counting, entries, features, run
from tests.support.media import plain_png
from tests.support.toys import loaded
from workers.entries import key_of

pytestmark = pytest.mark.service


@pytest.fixture
def node(node):
    FeatureCache(node.pool).set_budget(1 << 19)
    return node


def together(*works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_two_workers_make_an_item_once(node):
    """The second waits for the first, and is counted as attached."""
    begun = threading.Event()

    def slow(media):
        begun.set()
        time.sleep(0.2)

    slow_toy, other = Counting(slow), Counting()
    first, second = node.driver(slow_toy, cached=True), node.driver(other, cached=True)
    messages = [node.task(node.reference(RED), rid=rid, token=rid) for rid in ("r1", "r2")]

    def follow():
        begun.wait(10)
        second.run(messages[1])

    together(lambda: first.run(messages[0]), follow)

    assert (len(slow_toy.made), other.made) == (1, [])
    assert [node.way.state(rid) for rid in ("r1", "r2")] == ["parked", "parked"]
    counters = node.pool.stats().counters
    assert (counters["misses"], counters["hits"], counters["attaches"]) == (1, 1, 1)


def test_two_workers_that_want_the_same_two_items_in_turn_do_not_wait_for_each_other(node):
    """Each makes what falls to it before it waits."""
    slow = lambda media: time.sleep(0.05)  # noqa: E731
    toys = [Counting(slow), Counting(slow)]
    drivers = [node.driver(toy, cached=True) for toy in toys]
    pairs = [(RED, GREEN), (GREEN, RED)]
    messages = [node.task(*map(node.reference, pair), rid=f"r{n}", token=f"t{n}") for n, pair in enumerate(pairs)]

    together(*(lambda d=driver, m=message: d.run(m) for driver, message in zip(drivers, messages, strict=True)))

    assert [node.way.state(f"r{n}") for n in (0, 1)] == ["parked", "parked"]
    assert sorted(toys[0].made + toys[1].made) == sorted([digest_of(RED), digest_of(GREEN)])


def test_whoever_waits_for_one_that_fails_makes_it_himself(node):
    """One bad end is no reason for another."""
    begun = threading.Event()

    def fail(media):
        begun.set()
        time.sleep(0.1)
        raise ValueError("guest")

    good = Counting()
    first, second = node.driver(Counting(fail), cached=True), node.driver(good, cached=True)
    messages = [node.task(node.reference(RED), rid=rid, token=rid) for rid in ("r1", "r2")]

    def follow():
        begun.wait(10)
        second.run(messages[1])

    together(lambda: first.run(messages[0]), follow)

    assert [node.way.state(rid) for rid in ("r1", "r2")] == ["failed", "parked"]
    assert len(good.made) == 1


def test_cancelling_the_one_that_makes_an_item_harms_no_other(node):
    """It is finished all the same, for those who wait; only the cancelled request's own hold goes."""
    begun = threading.Event()

    def slow(media):
        begun.set()
        time.sleep(0.2)

    first, second = node.driver(Counting(slow), cached=True), node.driver(Counting(), cached=True)
    messages = [node.task(node.reference(RED), rid=rid, token=rid) for rid in ("r1", "r2")]

    def follow():
        begun.wait(10)
        assert node.way.cancel("r1") == "processing"
        second.run(messages[1])

    together(lambda: first.run(messages[0]), follow)

    assert [node.way.state(rid) for rid in ("r1", "r2")] == ["cancelled", "parked"]
    assert {info.rid for info in node.pool.blocks()} == {"r2"}
    assert node.pool.stats().counters["late_results"] == 1


def test_cancelling_one_that_waits_harms_nobody(node):
    """It is let go; the maker does not notice."""
    begun = threading.Event()

    def slow(media):
        begun.set()
        time.sleep(0.2)

    first, second = node.driver(Counting(slow), cached=True), node.driver(Counting(), cached=True)
    messages = [node.task(node.reference(RED), rid=rid, token=rid) for rid in ("r1", "r2")]

    def follow():
        begun.wait(10)
        cancel = threading.Timer(0.05, lambda: node.way.cancel("r2"))
        cancel.start()
        second.run(messages[1])
        cancel.join()

    together(lambda: first.run(messages[0]), follow)

    assert [node.way.state(rid) for rid in ("r1", "r2")] == ["parked", "cancelled"]
    assert {info.rid for info in node.pool.blocks()} == {"r1"}


def fill(node, leave):
    """Somebody else's block takes the pool but for so many bytes."""
    block = node.pool.allocate(node.pool.data_bytes - leave, "other", 1)
    assert block is not None
    return block.handle


def until(holds):
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def test_whoever_waits_for_room_holds_nothing_that_others_wait_for(node):
    """Neither a cached feature nor the promise to make one; else two that wait could wait for each other."""
    run(node, node.driver(cached=True), RED, rid="r0")
    driver = node.driver(cached=True)
    message = node.task(node.reference(RED), node.reference(GREEN), rid="r1", token="t1")
    room = fill(node, node.pool.stats().used_bytes + 100_000)  # for one of two blocks
    worker = threading.Thread(target=lambda: driver.run(message))
    worker.start()

    until(lambda: node.pool.waiting())
    held = [info for info in node.pool.blocks() if info.rid == "r1"]
    flights = FeatureCache(node.pool).flights()
    node.pool.free(room)
    worker.join(30)

    assert (held, flights) == ([], [])
    assert node.way.state("r1") == "parked"
    ticket = Ticket.unpack(node.way.claim("c1")[-1].ticket)
    assert features(node, ticket) == [[[400, 0, 0]] * 3, [[0, 400, 0]] * 2]


def test_two_that_need_each_others_room_both_end_well(node):
    """Each holds nothing while it waits, so the first in line gets all that it needs."""
    pictures = [plain_png(1, 30 + number) for number in range(6)]
    drivers = [node.driver(cached=True) for _ in range(2)]
    messages = [
        node.task(*map(node.reference, own), rid=f"r{n}", token=f"t{n}")
        for n, own in enumerate((pictures[:4], pictures[2:]))
    ]
    room = fill(node, 200_000)
    began = time.monotonic()
    workers = [threading.Thread(target=lambda d=d, m=m: d.run(m)) for d, m in zip(drivers, messages, strict=True)]
    for worker in workers:
        worker.start()
    time.sleep(0.3)
    node.pool.free(room)
    for worker in workers:
        worker.join(30)

    assert [node.way.state(rid) for rid in ("r0", "r1")] == ["parked"] * 2
    assert time.monotonic() - began < 10


def test_whoever_is_cancelled_leaves_the_line(node):
    """C096: its place and its worker are free soon, though there is no room."""
    driver = node.driver(cached=True)
    message = node.task(node.reference(RED), rid="r1")
    room = fill(node, 64)
    worker = threading.Thread(target=lambda: driver.run(message))
    worker.start()
    until(lambda: node.pool.waiting())

    node.way.cancel("r1")
    worker.join(5)

    assert not worker.is_alive()
    assert node.pool.waiting() == []
    assert node.way.state("r1") == "cancelled"
    node.pool.free(room)


def test_what_can_never_fit_is_refused_before_all_of_it_is_decoded(node):
    """Four pictures are too much for the pool; the third is already."""

    class Large(Counting):
        def feature_bytes(self, media):
            return 400_000

    toy = Large()
    driver = node.driver(toy, cached=True)
    loaded_items = []
    real = driver.maker.loader.load

    def counting(_self, ref, *others):
        loaded_items.append(ref.digest)
        return real(ref, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(driver.maker.loader), "load", counting)
        driver.run(node.task(*(node.reference(plain_png(1, 2 + n)) for n in range(4)), rid="r1"))

    problem = node.way.record("r1").problem
    assert (problem.code, problem.status) == ("features_too_large", 413)
    assert (len(loaded_items), toy.made) == (3, [])
    assert (node.pool.blocks(), FeatureCache(node.pool).flights()) == ([], [])


def test_whoever_waits_for_a_dead_one_takes_over(node):
    """Its lock file is free; there is nothing to wait for."""
    dead = node.driver(cached=True)
    key = key_of(node.reference(RED), loaded(), loaded().capabilities.extensions(), "")
    dead.cache.seek([key], "r0", 1)
    dead.life.close()
    toy = Counting()

    run(node, node.driver(toy, cached=True), RED, rid="r1")

    assert len(toy.made) == 1
    assert len(entries(node)) == 1


def test_whoever_waits_too_long_makes_it_without_an_entry(node, monkeypatch):
    """Somebody's slowness is not everybody's end."""
    monkeypatch.setattr("workers.driver._LONGEST_WAIT_S", 0.05)
    slow = node.driver(cached=True)
    key = key_of(node.reference(RED), loaded(), loaded().capabilities.extensions(), "")
    slow.cache.seek([key], "r0", 1)
    toy = Counting()

    run(node, node.driver(toy, cached=True), RED, rid="r1")

    assert len(toy.made) == 1
    assert entries(node) == []
    assert len(FeatureCache(node.pool).flights()) == 1
