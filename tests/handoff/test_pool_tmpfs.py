"""The pool where shared memory is short: everything is told in plain words beforehand, and nothing is ever a SIGBUS."""

import os

import numpy as np
import pytest

from forebay import ConfigurationError, DType, Failed
from forebay.ticket import ArrayAt
from handoff.pool import FeatureCache, Owner, Placement, Pool
from handoff.pool.table import slots_for, table_bytes
from tests.support.audit import audit, is_empty
from tests.support.small_tmpfs import MIB, within

KEY = b"k" * 32


@pytest.fixture
def folder(shm):
    """Where the small tmpfs is mounted."""
    (shm / "small").mkdir()
    return shm / "small"


def refusal(act, error=ConfigurationError):
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


def fill_whole(pool, byte=1):
    """Write every byte of the pool, through one block; the sum of what is read back."""
    block = pool.allocate(pool.data_bytes, "r1", 1)
    array, start = block.carve((pool.data_bytes,), DType.UINT8)
    array[:] = byte
    seen = block.array(ArrayAt(0, start, DType.UINT8, (pool.data_bytes,)))
    total = int(seen.sum(dtype=np.int64))
    pool.free(block.handle)
    return total


# making


@pytest.mark.parametrize("placement", [Placement(), Placement(numa_node=0)], ids=["anywhere", "on a node"])
def test_a_pool_that_is_too_large_is_refused_with_what_to_do(folder, placement):
    """64 MB is what a container has of /dev/shm if nobody asked for more. Nothing is left, and nothing was taken."""

    def act(place):
        free = place.free_bytes
        said = refusal(lambda: Pool.create(place.folder / "pool", 100 * MIB, placement=placement))
        return said, free, place.free_bytes, os.listdir(place.folder)

    said, free, free_afterwards, left = within("64m", folder, act)

    needed = 100 * MIB + table_bytes(slots_for(100 * MIB))
    assert said == (
        f"the feature pool needs {needed} bytes on {folder}, {free} are free; "
        "give a smaller --pool-bytes, or in a container a larger shm_size (or --ipc=host)"
    )
    assert (free_afterwards, left) == (free, [])


def test_a_pool_fits_to_the_page(folder):
    """Table and data are all that it takes."""

    def act(place):
        size = place.free_bytes - table_bytes(slots_for(64 * MIB))
        refused = refusal(lambda: Pool.create(place.folder / "pool", size + 4096))
        Pool.create(place.folder / "pool", size)
        pool = Pool(place.folder / "pool", "w", writable=True)
        return size, "the feature pool needs" in refused, place.free_bytes, fill_whole(pool)

    size, refused, left, total = within("64m", folder, act)

    assert (refused, left, total) == (True, 0, size)


def test_what_others_have_taken_is_not_there(folder):
    """The refusal says what is left; once they have given it back, the pool is made."""

    def act(place):
        others = place.fill(leave=10 * MIB)
        said = refusal(lambda: Pool.create(place.folder / "pool", 20 * MIB))
        others.unlink()
        Pool.create(place.folder / "pool", 20 * MIB)
        return said, fill_whole(Pool(place.folder / "pool", "w", writable=True))

    said, total = within("64m", folder, act)

    assert f"needs {20 * MIB + table_bytes(slots_for(20 * MIB))} bytes on {folder}, {10 * MIB} are free" in said
    assert total == 20 * MIB


@pytest.mark.parametrize("placement", [Placement(), Placement(numa_node=0)], ids=["anywhere", "on a node"])
def test_what_others_take_while_the_pool_is_made_is_told_the_same_way(folder, placement):
    """Between the look and the reservation; the kernel's refusal leaves nothing taken."""

    def act(place):
        free, place_of_many, real = place.free_bytes, os.statvfs("/"), os.statvfs
        os.statvfs = lambda _: place_of_many  # a look that was long ago
        said = refusal(lambda: Pool.create(place.folder / "pool", 100 * MIB, placement=placement))
        os.statvfs = real
        return said, place.free_bytes - free, os.listdir(place.folder)

    said, taken, left = within("64m", folder, act)

    assert said.startswith(
        f"the feature pool needs {100 * MIB + table_bytes(slots_for(100 * MIB))} bytes on {folder}, "
    )
    assert (taken, left) == (0, [])


def test_a_1_mb_tmpfs_has_no_room_for_one_large_image(folder):
    """C088: 23 MB of features. A sentence with both numbers, no partial file, and what is small still works."""
    feature = 4900 * 1176 * 4

    def act(place):
        said = refusal(lambda: Pool.create(place.folder / "pool", feature))
        left = os.listdir(place.folder)
        place.remount(size="5m")
        Pool.create(place.folder / "pool", MIB)
        pool = Pool(place.folder / "pool", "w", writable=True)
        never = refusal(lambda: pool.allocate(feature, "large", 1), ValueError)
        return said, left, never, fill_whole(pool)

    said, left, never, total = within("1m", folder, act)

    needed = feature + table_bytes(slots_for(feature))
    assert f"needs {needed} bytes" in said
    assert f"{MIB} are free" in said
    assert left == []
    assert never == f"a block of {feature} bytes; the pool has {MIB}"
    assert total == MIB


# running


def test_what_is_reserved_is_there_whatever_others_take(folder):
    """Somebody fills the file system after the pool is made; every byte of the pool can still be written."""

    def act(place):
        Pool.create(place.folder / "pool", 32 * MIB)
        place.fill()
        pool = Pool(place.folder / "pool", "w", writable=True)
        return place.free_bytes, fill_whole(pool), is_empty(pool)

    assert within("64m", folder, act) == (0, 32 * MIB, True)


def test_a_file_system_that_is_made_smaller_takes_nothing_away(folder):
    """The kernel refuses a size below what is in use, and at that size every verb works."""

    def act(place):
        Pool.create(place.folder / "pool", 32 * MIB)
        pool = Pool(place.folder / "pool", "w", writable=True)
        place.remount(size=40 * MIB)
        place.fill()
        cache = FeatureCache(pool)
        cache.set_budget(MIB)
        [flight] = cache.seek([KEY], "r1", 1)
        block = pool.allocate(MIB, "r1", 1)
        cache.commit(flight, KEY, block.handle, (0, 4))
        pool.park(block.handle)
        pool.free(pool.take(block.handle).handle)
        audit(pool)
        cache.clear()
        return place.free_bytes, fill_whole(pool)

    assert within("64m", folder, act) == (0, 32 * MIB)


def verbs(pool, other, handle, flight):
    """Everything that one can do with a pool, and that has to touch it."""
    cache = FeatureCache(pool)
    [info] = other
    return {
        "allocate": lambda: pool.allocate(64, "r1", 1),
        "park": lambda: pool.park(handle),
        "take": lambda: pool.take(handle),
        "share": lambda: pool.share([handle], ["rank-1"]),
        "free": lambda: pool.free(handle),
        "free_if": lambda: pool.free_if(info),
        "abandon_all": pool.abandon_all,
        "join_line": lambda: pool.join_line(64),
        "leave_line": lambda: pool.leave_line(1, 0.0),
        "waiting": pool.waiting,
        "blocks": pool.blocks,
        "is_current": lambda: pool.is_current(handle),
        "count": lambda: pool.count(9),
        "stats": pool.stats,
        "budget": lambda: cache.budget_bytes,
        "set_budget": lambda: cache.set_budget(0),
        "seek": lambda: cache.seek([KEY], "r1", 1),
        "commit": lambda: cache.commit(flight, KEY, handle, (0, 4)),
        "abandon": lambda: cache.abandon(flight),
        "entries": cache.entries,
        "pin": lambda: cache.pin(KEY.hex()),
        "clear": cache.clear,
        "flights": cache.flights,
    }


@pytest.mark.parametrize("left", [0, 1, 4096, MIB])
def test_a_pool_that_somebody_cuts_off_is_told_by_every_verb(folder, left):
    """With both numbers, as a fault of ours that others may retry elsewhere; also who opens it now is told."""

    def act(place):
        Pool.create(place.folder / "pool", 8 * MIB)
        pool = Pool(place.folder / "pool", "w", writable=True)
        handle = pool.allocate(64, "r1", 1).handle
        [flight] = FeatureCache(pool).seek([KEY], "r1", 1)
        acts = verbs(pool, pool.blocks(), handle, flight)
        os.truncate(place.folder / "pool", left)
        said = {name: refusal(act, Failed) for name, act in acts.items()}
        opening = refusal(lambda: Pool(place.folder / "pool", "w", writable=True))
        pool.close()
        return said, opening

    said, opening = within("64m", folder, act)

    total = 8 * MIB + table_bytes(slots_for(8 * MIB))
    assert set(said.values()) == {f"{folder}/pool was cut off: {left} of {total} bytes are left"}
    assert "its header promises" in opening or "not a feature pool" in opening


def test_a_damaged_pool_is_a_503(folder):
    """The code is stable; the request may be tried on another node."""

    def act(place):
        Pool.create(place.folder / "pool", MIB)
        pool = Pool(place.folder / "pool", "w", writable=True)
        os.truncate(place.folder / "pool", 4096)
        with pytest.raises(Failed) as caught:
            pool.stats()
        return caught.value.code, caught.value.status

    assert within("64m", folder, act) == ("pool_damaged", 503)


# lives


def test_a_life_needs_a_file_but_no_room(folder):
    """Where the pool has taken everything, its processes can still say that they live."""

    def act(place):
        place.fill()
        life = Owner(place.folder, "worker")
        pool = place.folder / f"owner-{life.id}"
        return place.free_bytes, pool.exists()

    assert within("4m", folder, act) == (0, True)


def test_a_file_system_without_files_left_is_told(folder):
    """Which folder, and what is missing there; no descriptor is left of it."""

    def act(place):
        before = len(os.listdir("/proc/self/fd"))
        lives = []
        said = refusal(lambda: [lives.append(Owner(place.folder, "worker")) for _ in range(10)])
        return said, len(os.listdir("/proc/self/fd")) - before, sorted(os.listdir(place.folder))

    said, descriptors, left = within("4m", folder, act, nr_inodes=3)

    assert said == f"{folder}: no lock file can be made there: No space left on device"
    assert descriptors == len(left) > 0  # of those that could begin
    assert all(name.startswith("owner-worker-") for name in left)
