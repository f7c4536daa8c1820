"""What is being made for the cache: by one process at a time, and never by a dead one for long."""

import pytest

from handoff.pool import Flight, Found, Pending
from handoff.pool.table import FLIGHTS
from tests.support.members import membership
from tests.support.neighbour import neighbour

SIZE = 64 * 1024
A, B = (bytes([n]) * 32 for n in (1, 2))


@pytest.fixture
def join(shm):
    """Lets one more worker take part."""
    with membership(shm, SIZE) as join:
        yield join


@pytest.fixture
def worker(join):
    return join()


@pytest.fixture
def sibling(join):
    return join()


def counters(member):
    return {name: n for name, n in member.pool.stats().counters.items() if n and name in ("hits", "misses", "attaches")}


def test_one_makes_it_and_the_others_wait(worker, sibling, join):
    """However many ask. Who asks again is counted once."""
    assert isinstance(worker.seek(A), Flight)

    assert [member.seek(A) for member in (sibling, join())] == [Pending(worker.life.id)] * 2
    assert sibling.cache.seek([A], "r1", 1, again=True) == [Pending(worker.life.id)]
    assert counters(worker) == {"misses": 1, "attaches": 2}


def test_who_waited_finds_what_was_made(worker, sibling):
    """Also while its maker still holds it."""
    flight = worker.seek(A)
    sibling.seek(A)

    worker.commit(flight, A)

    assert isinstance(sibling.seek(A), Found)
    assert worker.cache.flights() == []
    assert counters(worker) == {"misses": 1, "attaches": 1, "hits": 1}


def test_what_is_given_up_is_the_next_ones_to_make(worker, sibling, join):
    """Of those who wait: one makes it, and the others wait for that one."""
    flight = worker.seek(A)
    sibling.seek(A)

    worker.cache.abandon(flight)
    worker.cache.abandon(flight)  # safe to call twice

    assert isinstance(sibling.seek(A), Flight)
    assert join().seek(A) == Pending(sibling.life.id)


def test_what_a_dead_process_was_making_is_taken_over(worker, sibling, join):
    """By the first who asks; what the dead one knew of it means nothing any more."""
    dead = join()
    flight = dead.seek(A)
    assert worker.seek(A) == Pending(dead.life.id)
    dead.die()

    taken_over = worker.seek(A)

    assert isinstance(taken_over, Flight)
    assert taken_over.serial != flight.serial
    assert sibling.seek(A) == Pending(worker.life.id)
    dead.cache.abandon(flight)
    assert worker.cache.flights() == [(taken_over, worker.life.id)]


def test_a_killed_process_makes_nobody_wait(shm, worker):
    """SIGKILL: its lock is gone, and so is its claim."""
    with neighbour(shm) as one:
        _ = one.owner
        worker.pool.owner, mine = one.owner, worker.pool.owner
        assert isinstance(worker.seek(A), Flight)
        worker.pool.owner = mine
        assert worker.seek(A) == Pending(one.owner)

        one.kill()

        assert isinstance(worker.seek(A), Flight)


def test_who_asks_for_what_it_makes_itself_makes_it_still(worker):
    """It would wait for itself. Its earlier claim means nothing any more."""
    first = worker.seek(A)
    second = worker.seek(A)

    assert isinstance(second, Flight)
    worker.cache.abandon(first)
    assert worker.cache.flights() == [(second, worker.life.id)]


def test_a_late_commit_does_not_end_anothers_flight(worker, sibling):
    """Both made it: the entry is the first one's, and the second ends its own flight."""
    late = worker.seek(A)
    worker.cache.abandon(late)
    flight = sibling.seek(A)

    handle = worker.commit(late, A)

    assert sibling.cache.flights() == [(flight, sibling.life.id)]
    assert sibling.pool.free(sibling.commit(flight, A)) is True
    assert sibling.cache.flights() == []
    assert [entry.offset for entry in worker.cache.entries()] == [handle.offset]


def test_too_many_at_once_are_made_without_the_cache(worker, sibling):
    """None, and not an error; what ends makes room for the next."""
    keys = [n.to_bytes(32, "little") for n in range(1, FLIGHTS + 1)]
    flights = worker.cache.seek(keys, "r1", 1)
    assert all(isinstance(one, Flight) for one in flights)

    assert sibling.cache.seek([A, keys[3]], "r1", 1) == [None, Pending(worker.life.id)]

    worker.cache.abandon(flights[7])
    assert isinstance(sibling.seek(A), Flight)


def test_flights_of_keys_that_begin_alike_are_two(worker, sibling):
    """As the entries are."""
    alike = [A[:8] + bytes([n]) * 24 for n in range(2)]
    worker.seek(alike[0])

    assert isinstance(sibling.seek(alike[1]), Flight)
    assert worker.seek(alike[1]) == Pending(sibling.life.id)
    assert sibling.seek(alike[0]) == Pending(worker.life.id)


def test_who_leaves_in_disorder_leaves_no_claims(worker, sibling):
    """After an interruption it may not know what it makes; others are not to wait for it."""
    worker.cache.seek([A, B], "r1", 1)
    parked, written = (worker.pool.allocate(1024, "r1", 1).handle for _ in range(2))
    worker.pool.park(parked)
    theirs = sibling.pool.allocate(1024, "r2", 1).handle
    worker.pool.join_line(100)

    assert worker.pool.abandon_all() == 1

    assert (worker.cache.flights(), worker.pool.waiting()) == ([], [])
    assert {info.handle for info in worker.pool.blocks()} == {parked, theirs}
    assert worker.pool.free(written) is False
