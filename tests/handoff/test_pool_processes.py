"""The feature pool between processes: the same bytes, and nobody blocked by the dead."""

import threading
from itertools import pairwise

import numpy as np
import pytest

from forebay import DType
from forebay.ticket import ArrayAt, Handle
from handoff.pool import Owner, Pool, is_alive
from handoff.pool.owners import bury_one, the_dead
from tests.support.neighbour import neighbour

SIZE = 1 << 20


@pytest.fixture
def folder(shm):
    Pool.create(shm / "pool", SIZE)
    return shm


@pytest.fixture
def pool(folder):
    pool = Pool(folder / "pool", "test", writable=True)
    yield pool
    pool.close()


def test_what_one_process_writes_another_reads(folder, pool):
    """Without a byte in between: worker, scheduler and we look at the same memory."""
    with neighbour(folder, "worker") as worker, neighbour(folder, "scheduler") as scheduler:
        handle = worker.tell("write", 42, 5000, "r1")
        worker.tell("park", handle)

        seen = scheduler.tell("read", handle, 5000)
        block = pool.take(Handle(*handle))

        assert seen == [42]
        array = block.array(ArrayAt(0, 0, DType.UINT8, (5000,)))
        assert np.all(array == 42)
        [info] = pool.blocks()
        assert (info.owner, info.rid) == (worker.owner, "r1")


def test_blocks_of_two_processes_do_not_overlap(folder):
    """They share the table, and so the search for room."""
    with neighbour(folder) as one, neighbour(folder) as other:
        handles = [Handle(*who.tell("write", n, 4096, f"r{n}")) for n in range(10) for who in (one, other)]

    spans = sorted((handle.offset, handle.offset + handle.length) for handle in handles)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert len({handle.generation for handle in handles}) == 20


def test_a_dead_holder_of_the_lock_blocks_nobody(folder, pool):
    """The kernel drops the lock of a process that is killed in the middle of a change."""
    with neighbour(folder) as holder:
        holder.tell("hold_lock")
        got: list[object] = []
        waiting = threading.Thread(target=lambda: got.append(pool.allocate(100, "r1", 1)))
        waiting.start()
        waiting.join(0.1)
        assert got == []  # it waits, as it must while the holder lives

        holder.kill()
        waiting.join(5)

        assert got[0] is not None


def test_a_blocks_content_survives_the_death_of_its_writer(folder, pool):
    """The ticket owns it by then."""
    with neighbour(folder) as worker:
        handle = worker.tell("write", 7, 1000, "r1")
        worker.tell("park", handle)

    array = pool.take(Handle(*handle)).array(ArrayAt(0, 0, DType.UINT8, (1000,)))

    assert np.all(array == 7)


def test_a_reader_that_leaves_does_not_remove_the_pool(folder, pool):
    """As Python's own shared memory would, in the version we run on."""
    with neighbour(folder, "scheduler") as scheduler:
        scheduler.end()

    assert (folder / "pool").exists()
    assert pool.allocate(100, "r1", 1) is not None


# owners


def test_an_owner_lives_until_it_ends(folder):
    """In order or killed, the answer is the same."""
    with neighbour(folder) as one, neighbour(folder) as other:
        assert is_alive(folder, one.owner)
        assert is_alive(folder, other.owner)

        one.kill()
        other.end()

        assert not is_alive(folder, one.owner)
        assert not is_alive(folder, other.owner)
        assert (folder / f"owner-{one.owner}").exists()  # a killed one leaves its file, which nobody holds
        assert not (folder / f"owner-{other.owner}").exists()


def test_asking_does_not_end_a_life(folder):
    """However often, and by however many."""
    life = Owner(folder, "worker")

    assert [is_alive(folder, life.id) for _ in range(5)] == [True] * 5
    life.close()
    life.close()  # safe to call twice
    assert not is_alive(folder, life.id)


def test_nobody_is_alive_under_an_unknown_name(folder):
    """Nor under that of another node, whose folder this is not."""
    assert not is_alive(folder, "worker-1-00000000")
    assert not is_alive(folder, "")


def test_the_dead_are_buried_and_the_living_are_not(folder):
    """Their files go, and they are named; a file that vanishes meanwhile is no error."""
    mine = Owner(folder, "worker")
    with neighbour(folder) as one:
        one.kill()

        assert the_dead(folder) == [one.owner]
        assert [bury_one(folder, one.owner), bury_one(folder, one.owner)] == [True, False]
        assert the_dead(folder) == []
        assert is_alive(folder, mine.id)
    mine.close()


def test_names_tell_processes_apart(folder):
    """Role, process and chance: a process may own twice."""
    lives = [Owner(folder, "worker") for _ in range(3)]

    assert len({life.id for life in lives}) == 3
    assert all(life.id.startswith("worker-") for life in lives)
    for life in lives:
        life.close()
