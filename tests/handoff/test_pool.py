"""The feature pool in one process: whole or not at all, first fit, and never another request's bytes."""

import os
import struct
from dataclasses import replace

import pytest

from forebay import ConfigurationError, DType
from forebay.ticket import ArrayAt
from handoff.pool import Pool, StaleHandleError
from handoff.pool.table import ALIGNMENT, HEADER, PAGE, VERSION, HoldState, slots_for, table_bytes

SIZE = 64 * 1024
SLOTS = slots_for(SIZE)
TABLE = table_bytes(SLOTS)


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


def state_of(pool, handle):
    return {info.handle: info.state.name for info in pool.blocks()}.get(handle)


def take(pool, length=100, rid="r1"):
    block = pool.allocate(length, rid, 1)
    assert block is not None
    return block


def patch(path, field, value):
    """Damage one field of the header."""
    offset = HEADER.fields[field][1]
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(value)


# making and opening


def test_a_new_pool_is_whole_and_empty(pool, path):
    """Every byte is reserved on the file system, so that no later write can be a SIGBUS."""
    stat = path.stat()

    assert stat.st_size == TABLE + SIZE
    assert stat.st_blocks * 512 >= stat.st_size
    assert stat.st_mode & 0o777 == 0o600
    assert (pool.stats().free_bytes, pool.stats().blocks, pool.blocks()) == (SIZE, 0, [])
    assert [name.name for name in path.parent.iterdir()] == ["pool"]  # no draft is left


def test_a_pool_that_exists_is_not_replaced(pool, path):
    """Somebody is using it; what it holds is unharmed."""
    block = take(pool)

    with pytest.raises(FileExistsError):
        Pool.create(path, SIZE)

    assert state_of(pool, block.handle) == "WRITING"
    assert [name.name for name in path.parent.iterdir()] == ["pool"]


def test_no_room_is_told_with_both_numbers_and_leaves_nothing(shm):
    """Before anything is taken away from everybody else on that file system."""
    stat = os.statvfs(shm)
    free = stat.f_bavail * stat.f_frsize
    wanted = free + (1 << 30)

    with pytest.raises(
        ConfigurationError, match=r"needs \d+ bytes on .*, \d+ are free; .*--pool-bytes.*shm_size"
    ) as caught:
        Pool.create(shm / "pool", wanted)

    assert str(wanted + table_bytes(slots_for(wanted))) in str(caught.value)
    assert list(shm.iterdir()) == []


def test_a_reservation_that_the_kernel_refuses_is_told_the_same_way(shm, monkeypatch):
    """Between the look at the free space and the reservation somebody else may have taken it."""

    def full(fd, offset, length):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)

    with pytest.raises(ConfigurationError, match="the feature pool needs"):
        Pool.create(shm / "pool", SIZE)
    assert list(shm.iterdir()) == []


def test_a_pool_of_nothing_is_refused(shm):
    """It would be made, and then nobody could open it."""
    with pytest.raises(ConfigurationError, match="a feature pool of 0 bytes holds nothing"):
        Pool.create(shm / "pool", 0)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("magic", b"ABCDEFG\0", "not a feature pool"),
        ("version", struct.pack("<I", VERSION + 1), f"a pool of version {VERSION + 1}; this release reads {VERSION}"),
        ("data_bytes", struct.pack("<Q", SIZE * 2), "the header of the pool is damaged"),
        ("id", b"another pool", "the header of the pool is damaged"),
        ("checksum", b"\0\0\0\0", "the header of the pool is damaged"),
    ],
)
def test_a_header_that_is_not_ours_is_refused(path, field, value, told):
    """By what is wrong with it, with the file's name."""
    patch(path, field, value)

    with pytest.raises(ConfigurationError, match=told) as caught:
        Pool(path, "worker-1", writable=True)

    assert str(path) in str(caught.value)


@pytest.mark.parametrize("size", [TABLE + SIZE - 1, TABLE, TABLE - 1, PAGE, 1, 0])
def test_a_file_that_was_cut_off_is_refused(path, size):
    """Touching what is not there would be a SIGBUS, which Python cannot catch."""
    os.truncate(path, size)

    with pytest.raises(ConfigurationError, match=r"its header promises|shorter than its table"):
        Pool(path, "worker-1", writable=True)


def test_no_descriptor_is_left_after_a_refusal(path):
    """A worker that tries again and again must not run out of them."""
    os.truncate(path, TABLE)
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        with pytest.raises(ConfigurationError):
            Pool(path, "worker-1", writable=True)

    assert len(os.listdir("/proc/self/fd")) == before


# allocating and freeing


def test_a_block_is_aligned_and_at_least_as_long_as_asked(pool):
    """64 bytes, so that every array in it can be."""
    one, other = take(pool, 1), take(pool, 65)

    assert [(b.handle.offset, b.handle.length) for b in (one, other)] == [(0, 64), (64, 128)]
    assert one.address % ALIGNMENT == other.address % ALIGNMENT == 0


def test_blocks_do_not_share_a_byte(pool):
    """What is written into one is not seen in the other."""
    one, other = take(pool, 128, "r1"), take(pool, 128, "r2")
    a, _ = one.carve((128,), DType.UINT8)
    b, _ = other.carve((128,), DType.UINT8)

    a[:], b[:] = 1, 2

    assert (set(a.tolist()), set(b.tolist())) == ({1}, {2})


def test_the_first_gap_that_fits_is_taken(pool):
    """Freed neighbours are one gap; a gap that is too small is passed over."""
    blocks = [take(pool, 1024, f"r{n}") for n in range(5)]
    pool.free(blocks[1].handle)
    pool.free(blocks[3].handle)

    assert take(pool, 1025).handle.offset == 5 * 1024
    pool.free(blocks[2].handle)
    assert take(pool, 3 * 1024).handle.offset == 1024
    pool.free(blocks[0].handle)
    assert take(pool, 64).handle.offset == 0


def test_a_full_pool_has_no_room_until_something_goes(pool):
    """None is an answer, not an error: the worker waits."""
    whole = take(pool, SIZE)

    assert pool.allocate(1, "r2", 1) is None
    assert pool.stats().free_bytes == 0
    pool.free(whole.handle)
    assert pool.allocate(SIZE, "r2", 1) is not None


def test_room_in_two_pieces_is_no_room_for_one_block(pool):
    """A block is one run of bytes."""
    blocks = [take(pool, SIZE // 4, f"r{n}") for n in range(4)]
    pool.free(blocks[0].handle)
    pool.free(blocks[2].handle)

    assert pool.stats().free_bytes == SIZE // 2
    assert pool.allocate(SIZE // 4 + 1, "r5", 1) is None


@pytest.mark.parametrize("length", [0, -1, SIZE + 1])
def test_a_length_that_can_never_be_is_a_mistake(pool, length):
    """Waiting for it would never end."""
    with pytest.raises(ValueError, match=f"a block of {length} bytes; the pool has {SIZE}"):
        pool.allocate(length, "r1", 1)


def test_the_table_may_be_full_before_the_data(shm):
    """Then too there is no room now."""
    Pool.create(shm / "many", 64 * (SLOTS + 1))
    pool = Pool(shm / "many", "worker-1", writable=True)
    blocks = [take(pool, 1, "r") for _ in range(SLOTS)]

    assert pool.stats().free_bytes == 64
    assert pool.allocate(1, "r", 1) is None
    pool.free(blocks[7].handle)
    assert take(pool, 1).handle.slot == blocks[7].handle.slot
    pool.close()


def test_the_table_says_whose_a_block_is(pool, reader):
    """For the janitor and the operator."""
    block = pool.allocate(100, "r" * 128, 3)
    [info] = reader.blocks()

    assert (info.handle, info.state, info.owner, info.reader) == (block.handle, HoldState.WRITING, "worker-1", "")
    assert (info.rid, info.attempt) == ("r" * 128, 3)
    assert info.since > 1_700_000_000


# generations


def test_a_stale_handle_never_frees_anothers_block(pool):
    """Same slot, same bytes, another generation."""
    old = take(pool).handle
    pool.free(old)
    new = take(pool, rid="r2").handle
    assert (new.slot, new.offset) == (old.slot, old.offset)

    assert pool.free(old) is False
    assert state_of(pool, new) == "WRITING"
    for verb in (pool.park, pool.take):
        with pytest.raises(StaleHandleError, match=rf"slot {old.slot}, generation {old.generation}, is no longer"):
            verb(old)
    assert state_of(pool, new) == "WRITING"


def test_freeing_twice_is_told(pool):
    """And harmless."""
    handle = take(pool).handle

    assert [pool.free(handle), pool.free(handle)] == [True, False]
    assert pool.stats().free_bytes == SIZE


def test_a_handle_of_another_pool_means_nothing(pool, shm):
    """A node that was started anew has a new pool under the old name."""
    Pool.create(shm / "other", SIZE)
    other = Pool(shm / "other", "worker-1", writable=True)
    mine, theirs = take(pool).handle, take(other).handle

    assert (mine.slot, mine.generation) == (theirs.slot, theirs.generation)
    assert mine.pool != theirs.pool
    assert pool.free(theirs) is False
    with pytest.raises(StaleHandleError):
        pool.take(theirs)
    other.close()


def test_a_handle_beyond_the_table_means_nothing(pool):
    """Whatever a ticket of another release says."""
    foreign = replace(take(pool).handle, pool="other", slot=10**6)

    assert pool.free(foreign) is False


# park, take, free_if


def test_a_block_goes_from_its_writer_to_its_ticket_to_its_reader(pool, reader):
    """At each step the table says who answers for it."""
    block = take(pool)
    array, start = block.carve((2, 3), DType.FLOAT32)
    array[:] = [[1, 2, 3], [4, 5, 6]]

    pool.park(block.handle)
    assert state_of(pool, block.handle) == "PARKED"

    taken = reader.take(block.handle)
    [info] = reader.blocks()
    assert (info.state, info.reader, info.owner) == (HoldState.READING, "scheduler-1", "worker-1")
    assert taken.array(ArrayAt(0, start, DType.FLOAT32, (2, 3))).tolist() == [[1, 2, 3], [4, 5, 6]]

    assert reader.free(block.handle) is True
    assert reader.blocks() == []


def test_a_lapsed_block_is_taken_by_the_next_scheduler_and_left_by_the_former(pool, reader, path):
    """Memory is never pulled away from under the one that holds the ticket now."""
    handle = take(pool).handle
    pool.park(handle)
    reader.take(handle)
    successor = Pool(path, "scheduler-2", writable=False)
    successor.take(handle)

    assert reader.free(handle) is False
    assert state_of(successor, handle) == "READING"
    assert successor.free(handle) is True
    successor.close()


def test_a_writer_that_never_heard_of_the_parking_does_not_free_what_is_read(pool, reader):
    """Redis answered too late; the ticket was parked all the same, and a scheduler has it."""
    handle = take(pool).handle
    pool.park(handle)
    reader.take(handle)

    assert pool.free(handle) is False
    assert reader.free(handle) is True


def test_the_janitor_frees_only_what_is_as_it_saw_it(pool, reader):
    """Between the look and the act a scheduler may have taken the block, or it may be another one."""
    block = take(pool)
    [writing] = pool.blocks()
    pool.park(block.handle)
    assert pool.free_if(writing) is False

    [parked] = pool.blocks()
    reader.take(block.handle)
    [reading] = pool.blocks()

    assert pool.free_if(parked) is False
    assert pool.free_if(replace(reading, reader="scheduler-9")) is False
    assert pool.free_if(reading) is True
    assert pool.free_if(reading) is False
    assert pool.blocks() == []
