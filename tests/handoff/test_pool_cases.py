"""What others have run into with shared memory, by the number of the case: the pool does what is right."""

import pytest

from forebay import ConfigurationError, DType
from forebay.ticket import Handle
from handoff.pool import HoldState, Owner, Pool, StaleHandleError, is_alive
from tests.support.audit import audit, is_empty
from tests.support.neighbour import neighbour
from tests.support.steps import dies_after

SIZE = 64 * 1024


@pytest.fixture
def folder(shm):
    Pool.create(shm / "pool", SIZE)
    return shm


@pytest.fixture
def pool(folder):
    pool = Pool(folder / "pool", "test", writable=True)
    yield pool
    pool.close()


# C086: a process that only attached removes what another still needs


def test_what_a_worker_wrote_is_there_after_it_has_left(folder, pool):
    """C086: in order, or recycled; a scheduler that comes later reads it, and its leaving removes nothing either."""
    with neighbour(folder) as worker:
        handle = worker.tell("write", 42, 1000, "r1")
        worker.tell("park", handle)
        worker.end()

        with neighbour(folder, "scheduler") as scheduler:
            assert scheduler.tell("read", handle, 1000) == [42]
            scheduler.end()

    with neighbour(folder, "scheduler") as another:
        assert another.tell("read", handle, 1000) == [42]
        assert another.tell("free", handle) is True
    assert is_empty(pool)
    assert (folder / "pool").exists()


def test_a_pool_goes_once_by_the_hand_of_whoever_made_it(folder, pool):
    """C086: no process' end takes it away, nor does closing it."""
    Pool(folder / "pool", "other", writable=False).close()
    with neighbour(folder) as killed:
        killed.kill()

    (folder / "pool").unlink()

    with pytest.raises(FileNotFoundError):
        (folder / "pool").unlink()


# C089: a worker dies between writing and saying so


def work(folder, until):
    """What a worker does for one request, as far as ``until``."""
    life = Owner(folder, "worker")
    pool = Pool(folder / "pool", life.id, writable=True)
    block = pool.allocate(4096, "r1", 1)
    if until in ("half", "written", "parked"):
        array, _ = block.carve((4096,), DType.UINT8)
        array[: 2048 if until == "half" else 4096] = 1
    if until == "parked":
        pool.park(block.handle)


@pytest.mark.parametrize("until", ["allocated", "half", "written"])
def test_what_a_killed_worker_wrote_is_freed_and_the_livings_is_not(folder, pool, until):
    """C089: before, during and after the copy. The same request is then done by another worker."""
    living = Owner(folder, "worker")
    theirs = Pool(folder / "pool", living.id, writable=True)
    kept = theirs.allocate(1024, "r2", 1).handle

    dies_after(lambda: work(folder, until))
    [orphan] = [info for info in pool.blocks() if info.rid == "r1"]
    freed = [pool.free_if(info) for info in pool.blocks() if not is_alive(folder, info.owner)]

    assert (orphan.state, freed) == (HoldState.WRITING, [True])
    assert [info.handle for info in pool.blocks()] == [kept]
    with pytest.raises(StaleHandleError, match="no longer in the pool"):
        pool.take(orphan.handle)
    assert theirs.allocate(SIZE - 1024, "r1", 2) is not None
    audit(pool)
    theirs.close()
    living.close()


def test_what_was_parked_before_the_death_is_its_tickets(folder, pool):
    """C089: whether a ticket leads to it is for the index to say; the writer's death alone frees nothing."""
    dies_after(lambda: work(folder, "parked"))

    [info] = pool.blocks()

    assert (info.state, is_alive(folder, info.owner)) == (HoldState.PARKED, False)
    assert pool.take(info.handle).bytes_at(0, 4096) == b"\x01" * 4096


# C090: removed while somebody reads


def test_a_reader_reads_on_when_the_pool_is_removed(folder, pool):
    """C090: its bytes are intact until it lets go. Who comes now is told."""
    block = pool.allocate(1000, "r1", 1)
    block.carve((1000,), DType.UINT8)[0][:] = 5
    reader = Pool(folder / "pool", "scheduler", writable=False)
    taken = reader.take(block.handle)

    (folder / "pool").unlink()

    assert taken.bytes_at(0, 1000) == b"\x05" * 1000
    assert reader.free(block.handle) is True
    with pytest.raises(ConfigurationError, match=r"/pool: the feature pool cannot be opened: No such file"):
        Pool(folder / "pool", "late", writable=False)
    reader.close()


def test_a_new_pool_under_the_old_name_is_another_one(folder, pool):
    """C090: a handle into the old one means nothing there, though slot and generation are the same."""
    old = pool.allocate(1000, "r1", 1).handle
    (folder / "pool").unlink()
    Pool.create(folder / "pool", SIZE)
    new = Pool(folder / "pool", "test", writable=True)
    mine = new.allocate(1000, "r2", 1).handle

    assert Handle(new.id, old.slot, old.offset, old.length, old.generation) == mine
    assert new.free(old) is False
    assert pool.free(old) is True
    assert [info.handle for info in new.blocks()] == [mine]
    new.close()
