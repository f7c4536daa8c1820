"""Holds: several on one block, each given up by its own; blocks taken together or not at all; and what is counted."""

from dataclasses import replace

import pytest

from forebay import ConfigurationError, DType
from forebay.ticket import ArrayAt
from handoff.pool import Owner, Pool, StaleHandleError
from handoff.pool.table import COUNTERS, LEAST_SLOTS, MOST_SLOTS, HoldState, Number, slots_for, table_bytes
from tests.support.audit import audit, is_empty

SIZE = 64 * 1024
HOLDS = 2 * slots_for(SIZE)


@pytest.fixture
def path(shm):
    Pool.create(shm / "pool", SIZE)
    return shm / "pool"


@pytest.fixture
def opened(path):
    """Opens the pool for one more process, and closes it for all at the end."""
    pools = []

    def open_for(owner, *, writable=False):
        pools.append(Pool(path, owner, writable=writable))
        return pools[-1]

    yield open_for
    for pool in pools:
        audit(pool)
        pool.close()


@pytest.fixture
def worker(opened):
    return opened("worker-1", writable=True)


@pytest.fixture
def scheduler(opened):
    return opened("scheduler-1")


def take(pool, length=1024, rid="r1"):
    block = pool.allocate(length, rid, 1)
    assert block is not None
    return block


def park(pool, byte=1, length=1024, rid="r1"):
    """A parked block whose every byte is the same."""
    block = take(pool, length, rid)
    block.carve((block.handle.length,), DType.UINT8)[0][:] = byte
    pool.park(block.handle)
    return block.handle


def seen(block):
    """The values in a block, each once."""
    return set(block.array(ArrayAt(0, 0, DType.UINT8, (block.handle.length,))).tolist())


def states(pool):
    return sorted(info.state.name for info in pool.blocks())


# several holds on one block


def test_another_rank_takes_and_frees_by_the_handle_that_it_was_given(worker, scheduler, opened):
    """It sees the same bytes; the block goes with the last hold, whoever has it."""
    handle = park(worker, byte=9)
    scheduler.take(handle)
    rank = opened("rank-1")

    [[shared]] = scheduler.share([handle], ["rank-1"])
    block = rank.take(shared)

    assert (shared.offset, shared.length) == (handle.offset, handle.length)
    assert shared.generation != handle.generation
    assert seen(block) == {9}
    assert scheduler.free(handle) is True
    assert (states(worker), worker.stats().used_bytes) == (["SHARED"], 1024)
    assert rank.free(shared) is True
    assert is_empty(worker)


def test_a_shared_hold_says_who_reads_and_who_gave_it(worker, scheduler):
    """Another rank's death is told by its own name, not by the scheduler's."""
    handle = park(worker, rid="r7")
    scheduler.take(handle)

    scheduler.share([handle], ["rank-1"])

    [info] = [info for info in worker.blocks() if info.state is HoldState.SHARED]
    assert (info.owner, info.reader, info.rid, info.attempt) == ("scheduler-1", "rank-1", "r7", 1)


def test_every_rank_gets_its_own_hold_on_every_block(worker, scheduler):
    """Two blocks for two more ranks are four holds; each reader's are in the order of the blocks."""
    handles = [park(worker, rid=f"r{n}") for n in range(2)]
    for handle in handles:
        scheduler.take(handle)

    given = scheduler.share(handles, ["rank-1", "rank-2"])

    assert [[one.offset for one in theirs] for theirs in given] == [[0, 1024], [0, 1024]]
    assert len({one.generation for theirs in given for one in theirs}) == 4
    assert (worker.stats().blocks, worker.stats().used_bytes) == (2, 2048)


def test_nobody_frees_a_hold_that_is_anothers(worker, scheduler, opened):
    """Neither the scheduler that gave it, nor another rank."""
    handle = park(worker)
    scheduler.take(handle)
    [[shared]] = scheduler.share([handle], ["rank-1"])

    assert scheduler.free(shared) is False
    assert opened("rank-2").free(shared) is False
    assert opened("rank-1").free(shared) is True
    assert scheduler.free(handle) is True


def test_taking_a_shared_hold_does_not_make_it_a_tickets(worker, scheduler, opened):
    """It goes with the death of its reader, whatever becomes of the ticket."""
    handle = park(worker)
    scheduler.take(handle)
    [[shared]] = scheduler.share([handle], ["rank-1"])

    opened("rank-1").take(shared)

    assert states(worker) == ["READING", "SHARED"]


def test_a_dead_ranks_hold_is_freed_and_the_others_are_not(worker, scheduler, path):
    """As the janitor does it: it looks who is dead, and frees what is still as it was seen."""
    handle = park(worker)
    scheduler.take(handle)
    dead, living = Owner(path.parent, "rank"), Owner(path.parent, "rank")
    scheduler.share([handle], [dead.id, living.id])
    dead.close()

    shared = [info for info in worker.blocks() if info.state is HoldState.SHARED]
    freed = [worker.free_if(info) for info in shared if not worker.is_alive(info.reader)]

    assert freed == [True]
    assert states(worker) == ["READING", "SHARED"]
    assert (worker.stats().blocks, worker.stats().counters["orphans"]) == (1, 1)
    living.close()


def test_what_is_gone_cannot_be_shared(worker, scheduler):
    """And nothing is held of what could have been."""
    here, gone = park(worker, rid="r1"), park(worker, rid="r2")
    for handle in (here, gone):
        scheduler.take(handle)
    scheduler.free(gone)

    with pytest.raises(StaleHandleError, match=rf"slot {gone.slot}, generation {gone.generation}, is no longer"):
        scheduler.share([here, gone], ["rank-1"])

    assert states(worker) == ["READING"]


def test_when_the_table_of_holds_is_full_nobody_gets_one(worker, scheduler, opened):
    """Ranks are served all or none, and a new block needs a hold too; one that is given up is the next one's."""
    handle = park(worker)
    scheduler.take(handle)
    [[first], *_] = scheduler.share([handle], [f"rank-{n}" for n in range(HOLDS - 2)])

    with pytest.raises(StaleHandleError, match=r"the pool has 1 holds left; 1 blocks for 2 more ranks need 2"):
        scheduler.share([handle], ["rank-a", "rank-b"])
    assert len(worker.blocks()) == HOLDS - 1

    scheduler.share([handle], ["rank-a"])
    assert worker.allocate(64, "r2", 1) is None
    assert worker.stats().free_bytes == SIZE - 1024
    assert opened("rank-0").free(first) is True
    assert take(worker, 64).handle.slot == first.slot


# where blocks lie


def test_small_blocks_lie_at_the_end_of_the_pool(shm):
    """Token ids between pictures would leave gaps that no picture fits. Small is below a thousandth of the pool."""
    Pool.create(shm / "large", 1 << 20)
    pool = Pool(shm / "large", "worker-1", writable=True)

    offsets = [
        take(pool, length, rid).handle.offset for rid, length in (("a", 960), ("b", 1024), ("c", 64), ("d", 2048))
    ]

    end = 1 << 20
    assert offsets == [end - 960, 0, end - 960 - 64, 1024]
    pool.close()


def test_a_small_block_takes_the_last_gap_that_fits(shm):
    """Also one in the middle, when the end is taken."""
    Pool.create(shm / "large", 1 << 20)
    pool = Pool(shm / "large", "worker-1", writable=True)
    blocks = [take(pool, 1 << 18, f"r{n}").handle for n in range(4)]

    pool.free(blocks[0])
    pool.free(blocks[2])

    assert take(pool, 64).handle.offset == 3 * (1 << 18) - 64
    pool.close()


# all or nothing


def test_blocks_for_several_items_come_together(worker):
    """Each as long as asked, in the order of the lengths."""
    blocks = worker.allocate_all([100, 64, 1000], "r1", 2)

    assert [block.handle.length for block in blocks] == [128, 64, 1024]
    assert {(info.rid, info.attempt, info.state.name) for info in worker.blocks()} == {("r1", 2, "WRITING")}


@pytest.mark.parametrize("last", [SIZE // 4 + 64, SIZE // 2])
def test_what_does_not_fit_whole_leaves_nothing(worker, last):
    """Half a request's memory would only be in the way of another's."""
    kept = take(worker, SIZE // 4).handle
    blocks = worker.blocks()

    assert worker.allocate_all([SIZE // 4, SIZE // 4, last], "r2", 1) is None

    assert worker.blocks() == blocks
    assert worker.stats().used_bytes == SIZE // 4
    worker.free(kept)
    assert is_empty(worker)


@pytest.mark.parametrize("lengths", [[SIZE, 1], [0, 64], [64, -1], [SIZE // 2, SIZE // 2 + 1]])
def test_lengths_that_can_never_be_are_a_mistake(worker, lengths):
    """All together they must fit an empty pool."""
    with pytest.raises(ValueError, match=f"a block of {sum(lengths)} bytes; the pool has {SIZE}"):
        worker.allocate_all(lengths, "r1", 1)
    assert is_empty(worker)


def test_a_pool_that_is_no_multiple_of_an_alignment_keeps_its_rest(shm):
    """Its last bytes are in no block; the largest block is the rest."""
    Pool.create(shm / "odd", 1000)
    pool = Pool(shm / "odd", "worker-1", writable=True)

    with pytest.raises(ValueError, match="the pool has 1000"):
        pool.allocate(961, "r1", 1)
    assert take(pool, 960).handle.offset == 0
    assert pool.allocate(1, "r1", 1) is None
    pool.close()


# what handles mean


@pytest.mark.parametrize(
    "wrong", [{"slot": -1}, {"slot": HOLDS}, {"slot": 10**6}, {"offset": 1024}, {"length": 2048}], ids=str
)
def test_a_handle_that_is_none_of_ours_means_nothing(worker, wrong):
    """Also one that names this very pool: its neighbour's bytes are not shown."""
    foreign = replace(take(worker).handle, **wrong)

    assert worker.free(foreign) is False
    assert worker.is_current(foreign) is False
    with pytest.raises(StaleHandleError):
        worker.take(foreign)


# counting


def test_every_counter_is_told_by_name(worker):
    """Also those that only others count; a counter only grows."""
    for n, number in enumerate(COUNTERS.values(), start=1):
        worker.count(number, n)
        worker.count(number)

    assert worker.stats().counters == {name: n + 1 for n, name in enumerate(COUNTERS, start=1)}
    assert "late_results" in COUNTERS
    assert COUNTERS["orphans"] == Number.ORPHANS


def test_stats_count_a_block_once_however_many_hold_it(worker, scheduler):
    """Bytes are taken once."""
    handle = park(worker, length=4096)
    scheduler.take(handle)
    scheduler.share([handle], ["rank-1", "rank-2", "rank-3"])

    stats = worker.stats()

    assert (stats.data_bytes, stats.used_bytes, stats.free_bytes) == (SIZE, 4096, SIZE - 4096)
    assert (stats.blocks, stats.entries, stats.cached_bytes, stats.waiting) == (1, 0, 0, 0)


# whose pool it is


def test_another_installations_pool_is_refused(shm):
    """With what to do about it; ours, and one of nobody in particular, are opened."""
    Pool.create(shm / "theirs", SIZE, "theirs")
    Pool.create(shm / "anybodys", SIZE)

    with pytest.raises(
        ConfigurationError, match=r"another installation of Forebay.*FOREBAY_SECRET.*FOREBAY_DEPLOYMENT"
    ):
        Pool(shm / "theirs", "worker-1", writable=True, installation="ours")

    Pool(shm / "theirs", "worker-1", writable=True, installation="theirs").close()
    Pool(shm / "anybodys", "worker-1", writable=True, installation="ours").close()


def test_who_does_not_ask_may_look_at_any_pool(shm):
    """An operator's command knows the folder, and needs no secret."""
    Pool.create(shm / "theirs", SIZE, "theirs")

    pool = Pool(shm / "theirs", "viewer", writable=False)

    assert is_empty(pool)
    pool.close()


# how many blocks a pool can name


@pytest.mark.parametrize(
    ("size", "slots"),
    [(1, LEAST_SLOTS), (1 << 30, 4096), (2 << 30, 8192), (8 << 30, 32768), (16 << 30, 65536), (64 << 30, MOST_SLOTS)],
)
def test_a_larger_pool_names_more_blocks(size, slots):
    """One for every quarter of a MiB; the table stays below a thousandth of a large pool, and always below 50 MiB."""
    assert slots_for(size) == slots
    assert table_bytes(slots) < min(50 << 20, max(4 << 20, size // 200))
