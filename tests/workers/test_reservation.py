"""The memory of one request: in place where it can be, waited for where it must be, and given back whole."""

import gc
import threading
import time

import numpy as np
import pytest

from forebay import DType, Failed, Rejected
from forebay.ticket import ArrayAt
from handoff.pool import Pool
from handoff.pool.table import HoldState
from workers.reservation import Reservation

SIZE = 1 << 20


@pytest.fixture
def pool(shm):
    Pool.create(shm / "pool", SIZE)
    pool = Pool(shm / "pool", "worker-1", writable=True)
    yield pool
    pool.close()


def reservation(pool, patience_s=0.0):
    return Reservation(pool, "r1", 1, time.monotonic() + patience_s)


def content(pool, handles, at):
    return pool._block(handles[at.block]).array(at)


def test_an_array_from_the_pool_is_placed_where_it_lies(pool):
    """No copy, and the ticket says where."""
    held = reservation(pool)
    held.reserve(1000)
    array = held.empty((10, 4), DType.FLOAT32)
    array[:] = 3

    at = held.place(array, DType.FLOAT32)

    assert held.copied_bytes == 0
    assert (at.block, at.dtype, at.shape) == (0, DType.FLOAT32, (10, 4))
    assert np.all(content(pool, held.handles, at) == 3)


def test_part_of_an_array_from_the_pool_is_placed_where_it_lies(pool):
    """One allocation may hold several items."""
    held = reservation(pool)
    array = held.empty((10, 4), DType.FLOAT32)
    array[:] = np.arange(40).reshape(10, 4)

    at = held.place(array[3:5], DType.FLOAT32)

    assert (at.start, at.shape, held.copied_bytes) == (3 * 16, (2, 4), 0)
    assert content(pool, held.handles, at).tolist() == [[12, 13, 14, 15], [16, 17, 18, 19]]


def test_an_ordinary_array_is_copied_and_counted(pool):
    """The operator sees what a processor costs that does not write in place."""
    held = reservation(pool)
    held.reserve(100)
    array = np.arange(6, dtype=np.int64).reshape(2, 3)

    at = held.place(array, DType.INT64)

    assert held.copied_bytes == 48
    assert content(pool, held.handles, at).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("steps", ["every second", "transposed", "backwards"])
def test_an_array_in_steps_is_copied_in_its_own_order(pool, steps):
    """It lies in the pool, but not as a ticket could say."""
    held = reservation(pool)
    array = held.empty((4, 6), DType.INT64)
    array[:] = np.arange(24).reshape(4, 6)
    stepping = {"every second": array[:, ::2], "transposed": array.T, "backwards": array[::-1]}[steps]

    at = held.place(stepping, DType.INT64)

    assert held.copied_bytes == stepping.nbytes
    assert np.array_equal(content(pool, held.handles, at), stepping)


def test_what_was_foreseen_lies_in_one_block_with_what_lies_beside_it(pool):
    """Token ids and positions of an ordinary prompt need no block of their own."""
    held = reservation(pool)
    held.reserve(200_000)
    held.empty((50_000,), DType.FLOAT32)

    held.place(np.arange(2000), DType.INT64)
    held.place(np.zeros((3, 2000), np.int64), DType.INT64)

    assert len(held.handles) == 1


def test_what_was_not_foreseen_gets_a_block_of_its_own(pool):
    """A processor that does not say what it needs is served all the same."""
    held = reservation(pool)
    held.reserve(1000)
    first = held.empty((100,), DType.FLOAT32)
    large = held.empty((50_000,), DType.FLOAT32)
    large[:], first[:] = 2, 1

    places = [held.place(first, DType.FLOAT32), held.place(large, DType.FLOAT32)]

    assert [at.block for at in places] == [0, 1]
    assert [float(content(pool, held.handles, at).max()) for at in places] == [1, 2]
    assert held.copied_bytes == 0


def test_a_request_without_features_takes_no_block(pool):
    """A text passes by the pool."""
    held = reservation(pool)

    held.reserve(0)

    assert (held.handles, pool.blocks()) == ((), [])


def test_features_that_can_never_fit_are_the_callers_to_mend(pool):
    """With both numbers, at once, and without waiting."""
    held = reservation(pool, patience_s=60)
    began = time.monotonic()

    with pytest.raises(Rejected) as caught:
        held.reserve(SIZE)

    needed = SIZE + 64 * 1024 + SIZE // 256
    assert caught.value.message == f"the features need {needed} bytes; the feature pool has {SIZE}"
    assert (caught.value.code, caught.value.status) == ("features_too_large", 413)
    assert time.monotonic() - began < 1


def test_room_is_waited_for(pool):
    """Somebody else's block goes, and the wait is counted."""
    theirs = pool.allocate(SIZE, "r2", 1)
    held = reservation(pool, patience_s=10)
    freeing = threading.Timer(0.05, pool.free, [theirs.handle])
    freeing.start()

    held.reserve(1000)

    assert len(held.handles) == 1
    assert 0.04 < held.waited_s < 5
    freeing.join()


def test_waiting_for_room_ends_with_the_numbers(pool):
    """Within the patience; a 503 with a time to come back."""
    pool.allocate(SIZE - 4096, "r2", 1)
    held = reservation(pool, patience_s=0.05)

    with pytest.raises(Failed) as caught:
        held.reserve(10_000)

    needed = 10_048 + 64 * 1024 + 10_000 // 256
    assert caught.value.message == f"no room for {needed} bytes of features; 4096 are free in the pool"
    assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("pool_full", 503, 5)
    assert held.handles == ()


def test_whoever_waits_behind_others_is_told_of_them(pool):
    """What is free is not free for everybody: a large request is not overtaken for ever."""
    pool.allocate(SIZE // 2, "r2", 1)
    pool.is_alive = lambda owner: True
    pool.join_line(SIZE)
    held = reservation(pool, patience_s=0.05)

    with pytest.raises(Failed) as caught:
        held.reserve(1000)

    assert caught.value.message.endswith(f"; {SIZE // 2} are free in the pool; 1 more wait for room")


def test_everything_is_given_back(pool):
    """Every block, and none twice."""
    held = reservation(pool)
    held.reserve(1000)
    held.empty((100_000,), DType.UINT8)

    assert held.free() == []

    assert pool.stats().free_bytes == SIZE
    assert (held.handles, held.free()) == ((), [])


def test_parked_blocks_belong_to_the_ticket(pool):
    """Letting go of them leaves them in the pool."""
    held = reservation(pool)
    held.reserve(1000)
    held.park()

    assert held.let_go() == []

    assert [info.state for info in pool.blocks()] == [HoldState.PARKED]


@pytest.mark.parametrize("parked", [False, True])
def test_a_kept_array_keeps_its_block_until_it_goes(pool, parked):
    """Against the contract; the block is not another request's while somebody looks at it."""
    held = reservation(pool)
    kept = held.empty((10,), DType.FLOAT32)
    held.place(np.zeros(100_000, np.uint8), DType.UINT8)  # in a second block, which nobody keeps
    if parked:
        held.park()

    [lease] = held.let_go() if parked else held.free()

    assert lease.close() is False
    assert len(pool.blocks()) == (2 if parked else 1)
    kept[:] = 1
    del kept
    assert lease.close() is True
    assert len(pool.blocks()) == (2 if parked else 0)


def test_an_array_that_only_a_cycle_keeps_does_not_keep_its_block(pool):
    """A traceback's frames, for example: they are collected before the block is called kept."""
    held = reservation(pool)
    gc.disable()
    try:
        cycle = [held.empty((10,), DType.FLOAT32)]
        cycle.append(cycle)
        del cycle

        assert held.free() == []
    finally:
        gc.enable()
    assert pool.blocks() == []


def test_an_empty_array_needs_no_room_of_its_own(pool):
    """A prompt without positions, an item without rows: allowed here, judged elsewhere."""
    held = reservation(pool)
    held.reserve(64)

    assert held.empty((0, 3), DType.FLOAT32).shape == (0, 3)
    assert held.place(np.zeros((0,), np.int64), DType.INT64) == ArrayAt(0, 0, DType.INT64, (0,))
