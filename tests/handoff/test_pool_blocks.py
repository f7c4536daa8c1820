"""Arrays over a block of the pool: where they were written, never outside it, and never longer than it is held."""

import numpy as np
import pytest

from forebay import DType
from forebay.ticket import ArrayAt
from handoff.pool import LiveViewError, Pool, forget_frames

SIZE = 64 * 1024


@pytest.fixture
def path(shm):
    Pool.create(shm / "pool", SIZE)
    return shm / "pool"


@pytest.fixture
def pool(path):
    pool = Pool(path, "worker-1", writable=True)
    yield pool
    pool.close()


@pytest.fixture
def reader(path):
    """Another process' access: a scheduler's, which cannot write features."""
    pool = Pool(path, "scheduler-1", writable=False)
    yield pool
    pool.close()


def take(pool, length=100, rid="r1"):
    block = pool.allocate(length, rid, 1)
    assert block is not None
    return block


def test_arrays_are_carved_one_after_another_and_aligned(pool):
    """And found again by where they start."""
    block = take(pool, 256)

    (a, at_a), (b, at_b) = block.carve((3,), DType.INT64), block.carve((5, 2), DType.BFLOAT16)
    a[:], b[:] = [1, 2, 3], 7

    assert (at_a, at_b) == (0, 64)
    assert (a.dtype, b.dtype, b.shape) == (np.int64, np.uint16, (5, 2))
    assert block.array(ArrayAt(0, at_a, DType.INT64, (3,))).tolist() == [1, 2, 3]
    assert block.array(ArrayAt(0, at_b, DType.BFLOAT16, (10,))).tolist() == [7] * 10


def test_what_does_not_fit_is_not_carved(pool):
    """To the byte; what fits beside it still is."""
    block = take(pool, 128)
    block.carve((1,), DType.UINT8)

    assert block.carve((65,), DType.UINT8) is None
    assert block.carve((64,), DType.UINT8) is not None
    assert block.carve((1,), DType.UINT8) is None
    assert block.carve((0,), DType.UINT8)[0].size == 0


@pytest.mark.parametrize("at", [(-1, (1,)), (0, (129,)), (128, (1,)), (64, (65,)), (1 << 40, (1,))])
def test_an_array_outside_its_block_is_refused(pool, at):
    """A ticket that says so is broken; its neighbour's bytes are not shown."""
    block = take(pool, 128)

    with pytest.raises(ValueError, match="do not lie in a block of 128 bytes"):
        block.array(ArrayAt(0, at[0], DType.UINT8, at[1]))


def looks(kind, array):
    """Ways to keep looking at an array without keeping it."""
    import torch

    return {
        "the array": lambda: array,
        "a slice": lambda: array[1:3],
        "a slice of a view": lambda: array.reshape(2, 2).T[1:],
        "other type": lambda: array.view(np.uint8),
        "memoryview": lambda: memoryview(array),
        "tensor": lambda: torch.from_numpy(array),
        "slice of a tensor": lambda: torch.from_numpy(array)[2:],
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    ["the array", "a slice", "a slice of a view", "other type", "memoryview", "tensor", "slice of a tensor"],
)
def test_a_block_is_not_let_go_while_somebody_looks_at_it(pool, kind):
    """An error that can be handled, not a crash and not another request's bytes; afterwards it works."""
    block = take(pool)
    array, _ = block.carve((4,), DType.FLOAT32)
    look = looks(kind, array)
    del array

    for _ in range(2):
        with pytest.raises(LiveViewError, match=f"slot {block.handle.slot} is still referenced"):
            block.release()

    del look
    block.release()
    block.release()  # safe to call twice
    with pytest.raises(ValueError, match="do not lie in a block"):
        block.array(ArrayAt(0, 0, DType.UINT8, (1,)))


def test_one_of_several_arrays_is_enough_to_keep_a_block(pool):
    """Whichever it is."""
    block = take(pool, 1024)
    arrays = [block.carve((4,), DType.FLOAT32)[0] for _ in range(3)]
    arrays.append(block.array(ArrayAt(0, 0, DType.UINT8, (4,))))

    for _ in range(4):
        with pytest.raises(LiveViewError):
            block.release()
        arrays.pop()

    block.release()


def test_a_reader_cannot_write(pool, reader):
    """Its mapping is read-only, not only its arrays."""
    handle = take(pool).handle
    pool.park(handle)
    array = reader.take(handle).array(ArrayAt(0, 0, DType.UINT8, (4,)))

    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        array.flags.writeable = True


def test_a_tensor_lies_over_the_very_bytes_of_the_pool(pool, reader):
    """From the worker's write to the engine's tensor there is no copy."""
    from forebay.engine import AdmittedItem
    from forebay.features import Modality, Span
    from scheduler.engines.tensors import feature

    block = take(pool, 4096)
    written, start = block.carve((4, 6), DType.BFLOAT16)
    written[:] = 0x3F80  # 1.0
    pool.park(block.handle)
    taken = reader.take(block.handle)
    array = taken.array(ArrayAt(0, start, DType.BFLOAT16, (4, 6)))

    tensor = feature(AdmittedItem(Modality.IMAGE, array, DType.BFLOAT16, (Span(0, 0),), 0, {}))

    assert tensor.data_ptr() == array.__array_interface__["data"][0] == taken.address + start
    assert tensor.tolist() == [[1.0] * 6] * 4
    written[0, 0] = 0x4000  # 2.0, through the worker's own mapping
    assert tensor[0, 0].item() == 2.0


def test_closing_with_a_view_alive_does_not_crash(path):
    """The kernel does the rest at the end of the process."""
    pool = Pool(path, "worker-1", writable=True)
    array, _ = take(pool).carve((4,), DType.FLOAT32)

    pool.close()

    array[:] = 1
    assert array.tolist() == [1] * 4


def test_64_megabytes_are_written_and_read_back(shm):
    """A large image's features, whole."""
    size = 64 << 20
    Pool.create(shm / "large", size)
    pool = Pool(shm / "large", "worker-1", writable=True)
    reader = Pool(shm / "large", "scheduler-1", writable=False)
    block = take(pool, size)
    array, start = block.carve((size // 8,), DType.INT64)
    array[:] = np.arange(size // 8)

    seen = reader.take(block.handle).array(ArrayAt(0, start, DType.INT64, (size // 8,)))

    assert np.array_equal(seen, np.arange(size // 8))
    del array, seen
    pool.close()
    reader.close()


def test_bytes_are_written_behind_what_was_carved(pool):
    """Where they start is what finds them again; None when they do not fit."""
    block = take(pool, 192)
    block.carve((70,), DType.UINT8)

    assert block.write(b"a picture of 8x8") == 128
    assert block.bytes_at(128, 16) == b"a picture of 8x8"
    assert block.write(b"x" * 65) is None


@pytest.mark.parametrize(("start", "length"), [(-1, 4), (0, 129), (128, 1), (1 << 40, 0)])
def test_bytes_outside_a_block_are_not_shown(pool, start, length):
    """They are a neighbour's."""
    block = take(pool, 128)

    with pytest.raises(ValueError, match=f"{length} bytes at {start} do not lie in a block of 128 bytes"):
        block.bytes_at(start, length)


def test_what_is_sealed_is_written_no_more(pool):
    """Others may be reading it. What was carved before is seen; nothing new is carved, and new views are read-only."""
    block = take(pool, 256)
    block.carve((4,), DType.UINT8)[0][:] = 5

    block.seal()

    assert block.carve((1,), DType.UINT8) is None
    assert block.write(b"x") is None
    seen = block.array(ArrayAt(0, 0, DType.UINT8, (4,)))
    assert (seen.tolist(), seen.flags.writeable) == ([5] * 4, False)


def test_what_an_error_has_looked_at_can_be_given_back(pool):
    """Its frames hold the array as long as they are not emptied; those of its causes too."""
    block = take(pool, 128)
    caught = None
    try:
        look_and_fail(block)
    except RuntimeError as error:
        caught = error
    with pytest.raises(LiveViewError):
        block.release()

    forget_frames(caught)

    block.release()


def look_and_fail(block):
    """As a processor does that meets a bad picture."""
    try:
        array, _ = block.carve((4,), DType.UINT8)
        raise ValueError(f"{array.size} values")
    except ValueError as error:
        raise RuntimeError("no picture") from error
