"""The line of those who wait for room: first come, first served; only the living count, and nobody is starved."""

import time

import pytest

from handoff.pool.table import WAITERS
from tests.support.audit import audit
from tests.support.members import membership
from tests.support.neighbour import neighbour
from tests.support.stream import had, streams

SIZE = 64 * 1024
LARGE, SMALL = SIZE // 2 + 64, 1024


@pytest.fixture
def join(shm):
    """Lets one more worker take part."""
    with membership(shm, SIZE) as join:
        yield join


@pytest.fixture
def holder(join):
    """It holds half of the pool."""
    holder = join()
    holder.block = holder.pool.allocate(SIZE // 2, "r0", 1)
    return holder


@pytest.fixture
def large(join):
    """It waits for more than the other half."""
    large = join()
    assert large.pool.allocate(LARGE, "large", 1) is None
    large.turn = large.pool.join_line(LARGE)
    return large


@pytest.fixture
def small(join):
    return join()


def tries(member, length, **how):
    """What one gets now, and gives back at once."""
    blocks = member.pool.allocate_all([length], "r", 1, **how)
    return blocks is not None and member.pool.free(blocks[0].handle)


# fairness


def test_who_comes_later_does_not_overtake(holder, large, small):
    """Though there would be room for it."""
    assert small.pool.stats().free_bytes == SIZE // 2

    assert tries(small, SMALL) is False
    assert tries(large, LARGE, turn=large.turn) is False
    holder.pool.free(holder.block.handle)
    assert tries(small, SMALL) is False
    assert tries(large, LARGE, turn=large.turn) is True
    assert tries(small, SMALL) is False  # until it has left

    large.pool.leave_line(large.turn, 0.25)
    assert tries(small, SMALL) is True


def test_the_line_is_served_in_its_order(holder, large, small, join):
    """Everybody has the turn that it came at; those behind the first wait for it."""
    third = join()
    small.turn, third.turn = small.pool.join_line(SMALL), third.pool.join_line(SMALL)
    assert large.turn < small.turn < third.turn
    holder.pool.free(holder.block.handle)

    served = []
    for _ in range(3):
        [first] = [one for one in (third, small, large) if tries(one, SMALL, turn=one.turn)]
        served.append(first)
        first.pool.leave_line(first.turn, 0.0)

    assert served == [large, small, third]


def test_a_dead_waiter_is_passed_over(holder, large, small):
    """By the first who asks, and it is out of the line then."""
    large.die()

    assert tries(small, SMALL) is True

    assert small.pool.waiting() == []
    assert small.pool.stats().waiting == 0


def test_the_dead_behind_the_living_change_nothing(holder, large, small, join):
    """Whoever is first is first."""
    dead = join()
    dead.pool.join_line(SMALL)
    dead.die()

    assert tries(small, SMALL) is False
    assert [waiter.owner for waiter in small.pool.waiting()] == [large.life.id, dead.life.id]


def test_a_killed_waiter_holds_nobody_up(shm, holder, small):
    """SIGKILL in the middle of its wait."""
    with neighbour(shm) as one:
        small.pool.owner, mine = one.owner, small.pool.owner
        small.pool.join_line(LARGE)
        small.pool.owner = mine
        assert tries(small, SMALL) is False

        one.kill()

        assert tries(small, SMALL) is True


def test_who_holds_blocks_already_goes_before_the_line(holder, large):
    """Others may be waiting for those."""
    assert tries(holder, SMALL) is False
    assert tries(holder, SMALL, jumps=True) is True
    assert tries(holder, LARGE, jumps=True) is False  # there is no more room for it than for anybody


def test_the_line_says_who_waits_for_how_much(holder, large, small):
    """And since when: for the operator."""
    small.pool.join_line(SMALL)

    line = small.pool.waiting()

    assert [(waiter.owner, waiter.length) for waiter in line] == [(large.life.id, LARGE), (small.life.id, SMALL)]
    assert all(0 <= time.time() - waiter.since < 60 for waiter in line)
    assert small.pool.stats().waiting == 2


def test_waiting_is_counted(holder, large, small):
    """How often, and for how long all together."""
    small.turn = small.pool.join_line(SMALL)
    small.pool.leave_line(small.turn, 0.0004)
    large.pool.leave_line(large.turn, 1.25)

    counters = small.pool.stats().counters

    assert (counters["waits"], counters["waited_ms"]) == (2, 1250)


# coming and going


def test_leaving_twice_is_harmless(holder, large, small):
    """Nobody else loses a place."""
    turn = small.pool.join_line(SMALL)

    for _ in range(2):
        small.pool.leave_line(turn, 0.0)

    assert [waiter.turn for waiter in small.pool.waiting()] == [large.turn]
    assert small.pool.stats().waiting == 1


def test_who_has_been_taken_for_dead_comes_after_everybody(holder, large, small):
    """It has no place any more, and may still be served when nobody waits."""
    [waiter] = small.pool.waiting()
    small.pool.drop_waiter(waiter)
    small.turn = small.pool.join_line(SMALL)
    holder.pool.free(holder.block.handle)

    assert tries(large, LARGE, turn=large.turn) is False
    assert tries(small, SMALL, turn=small.turn) is True
    small.pool.leave_line(small.turn, 0.0)
    assert tries(large, LARGE, turn=large.turn) is True


def test_when_the_line_is_full_one_waits_without_a_place(holder, large, small):
    """Turn 0: after everybody in line. A place that is left is the next one's."""
    turns = [large.pool.join_line(SMALL) for _ in range(WAITERS - 1)]
    assert len(set(turns)) == WAITERS - 1

    assert small.pool.join_line(SMALL) == 0
    assert tries(small, SMALL, turn=0) is False
    small.pool.leave_line(0, 0.0)  # leaves nobody's place
    assert small.pool.stats().waiting == WAITERS

    large.pool.leave_line(turns[5], 0.0)
    assert small.pool.join_line(SMALL) > turns[-1]


# processes


def test_a_large_request_is_not_starved_by_small_ones(shm, join):
    """Somebody always holds a little of the pool, and yet who waits for all of it gets it; then the others go on."""
    one = join()
    with streams(shm, 3, SIZE // 8) as running:
        turn = one.pool.join_line(SIZE)
        blocks, until = None, time.monotonic() + 20
        while blocks is None and time.monotonic() < until:
            time.sleep(0.001)
            blocks = one.pool.allocate_all([SIZE], "large", 1, turn=turn)
        one.pool.leave_line(turn, 0.0)

        assert blocks is not None
        one.pool.free(blocks[0].handle)
        assert owners_seen(one.pool, 3, until) == 3
        assert all(had(stream) > 0 for stream in running)
    audit(one.pool)
    assert one.pool.blocks() == []


def owners_seen(pool, wanted, until):
    """How many different ones have a block, one time or another, until so many do."""
    seen = set()
    while len(seen) < wanted and time.monotonic() < until:
        seen |= {info.owner for info in pool.blocks()}
    return len(seen)
