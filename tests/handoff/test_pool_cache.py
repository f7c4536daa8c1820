"""The feature cache: what was made once is found again, and goes only when nobody looks at it and room is needed."""

import pytest

from forebay import DType
from forebay.ticket import ArrayAt
from handoff.pool import Flight, Found, Pending, StaleHandleError
from handoff.pool.table import slots_for
from tests.support.audit import is_empty
from tests.support.members import membership

SIZE = 64 * 1024
QUARTER = SIZE // 4
A, B, C, D = (bytes([n]) * 32 for n in range(1, 5))


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


def first_byte(found):
    return int(found.block.array(ArrayAt(0, 0, DType.UINT8, (1,)))[0])


def keys(member):
    """The entries' keys, the least recently used first."""
    return [bytes.fromhex(entry.key) for entry in member.cache.entries()]


# finding


def test_what_was_made_is_found_by_everybody_at_the_same_place(worker, sibling):
    """Each has a hold of its own on the one block, read-only, with the note that was written beside it."""
    made = worker.make(A, note=b"a picture of 8x8")

    found = [worker.seek(A), sibling.seek(A), sibling.seek(A)]

    assert all(isinstance(one, Found) for one in found)
    assert {(one.block.handle.offset, one.block.handle.length) for one in found} == {(made.offset, made.length)}
    assert len({one.block.handle for one in found} | {made}) == 4
    assert {(first_byte(one), one.note) for one in found} == {(A[0], b"a picture of 8x8")}
    assert {info.owner for info in worker.pool.blocks()} == {worker.life.id, sibling.life.id}
    for one in found:
        with pytest.raises(ValueError, match="read-only"):
            one.block.array(ArrayAt(0, 0, DType.UINT8, (1,)))[0] = 0
        assert one.block.carve((1,), DType.UINT8) is None


def test_a_found_block_goes_its_own_way(worker, sibling):
    """One request parks it for a scheduler, another gives it up; the entry outlives both."""
    worker.keep(A)
    mine, theirs = worker.seek(A).block.handle, sibling.seek(A).block.handle

    worker.pool.park(mine)
    assert sibling.pool.free(theirs) is True
    assert sibling.pool.free(theirs) is False
    assert first_byte(Found(sibling.pool.take(mine), b"")) == A[0]
    assert sibling.pool.free(mine) is True

    assert [(entry.holds, entry.length) for entry in worker.cache.entries()] == [(0, QUARTER)]


def test_several_keys_are_sought_in_one_step(worker, sibling):
    """In their order: found, made by another, to be made."""
    worker.keep(A)
    sibling.seek(B)

    sought = worker.cache.seek([C, A, B], "r1", 1)

    assert [type(one) for one in sought] == [Flight, Found, Pending]
    assert sought[2].owner == sibling.life.id


def test_an_entry_survives_its_maker(worker, join):
    """A new process finds it, though the one that made it has closed the pool and died."""
    maker = join()
    maker.keep(A)
    maker.die()

    found = join().seek(A)

    assert (first_byte(found), found.note) == (A[0], b"note")


def test_keys_that_begin_alike_are_two(worker):
    """The first eight bytes only make the search short."""
    alike = [A[:8] + bytes([n]) * 24 for n in range(3)]
    for n, key in enumerate(alike[:2]):
        worker.keep(key, 1024 * (n + 1))

    assert [worker.seek(key).block.handle.length for key in alike[:2]] == [1024, 2048]
    assert isinstance(worker.seek(alike[2]), Flight)


def test_a_key_of_zeros_is_a_key(worker):
    """Zero marks what is free, and must not find it."""
    zero = bytes(32)
    assert isinstance(worker.seek(zero), Flight)

    worker.make(zero)

    assert isinstance(worker.seek(zero), Found)
    assert isinstance(worker.seek(bytes(8) + A[:24]), Flight)


@pytest.mark.parametrize("note", [(QUARTER, 1), (QUARTER - 1, 2), (-1, 1), (0, -1)])
def test_a_note_that_does_not_lie_in_its_block_is_refused(worker, note):
    """By whoever writes it, not by those who would find it."""
    flight, block = worker.seek(A), worker.pool.allocate(QUARTER, "r1", 1)

    with pytest.raises(ValueError, match=f"do not lie in a block of {QUARTER} bytes"):
        worker.cache.commit(flight, A, block.handle, note)

    assert worker.cache.entries() == []


def test_a_block_that_is_gone_becomes_no_entry(worker):
    """Somebody else's bytes may lie there by now."""
    flight, handle = worker.seek(A), worker.pool.allocate(QUARTER, "r1", 1).handle
    worker.pool.free(handle)
    worker.pool.allocate(QUARTER, "r2", 1)

    with pytest.raises(StaleHandleError):
        worker.cache.commit(flight, A, handle, (0, 4))

    assert worker.cache.entries() == []


def test_a_key_that_was_made_twice_has_one_entry(worker, sibling):
    """The first stays; the second goes with its own request."""
    first = worker.make(A)
    second = sibling.commit(Flight(5, 999), A)

    assert worker.seek(A).block.handle.offset == first.offset
    assert sibling.pool.free(second) is True
    assert [(entry.offset, entry.holds) for entry in worker.cache.entries()] == [(first.offset, 2)]
    assert worker.pool.stats().used_bytes == QUARTER


# what stays and what goes


def test_entries_that_nobody_holds_are_kept_within_the_budget(worker):
    """In bytes; the least recently used goes first."""
    worker.cache.set_budget(3 * QUARTER)
    for key in (A, B, C):
        worker.keep(key)
    worker.pool.free(worker.seek(A).block.handle)

    worker.keep(D)

    assert keys(worker) == [C, A, D]
    assert worker.pool.stats().cached_bytes == 3 * QUARTER
    assert worker.pool.stats().counters["evictions"] == 1


def test_a_smaller_budget_is_kept_at_once(worker):
    """From whoever sets it; entries that are held do not count."""
    for key in (A, B, C):
        worker.keep(key)
    held = worker.seek(A).block.handle

    worker.cache.set_budget(QUARTER)

    assert keys(worker) == [A, C]
    assert worker.cache.budget_bytes == QUARTER
    worker.pool.free(held)
    assert keys(worker) == [A]  # used last


def test_a_budget_of_nothing_keeps_nothing(worker, sibling):
    """But those who hold an entry share it as long as they do."""
    worker.cache.set_budget(0)
    made = worker.make(A)
    found = sibling.seek(A)

    worker.pool.free(made)
    assert first_byte(found) == A[0]
    sibling.pool.free(found.block.handle)

    assert is_empty(worker.pool)


def test_an_entry_larger_than_the_budget_takes_no_other_with_it(worker):
    """It cannot stay, so nothing needs to go for it."""
    worker.cache.set_budget(2 * QUARTER)
    worker.keep(A, 1024)
    worker.keep(B, 1024)

    worker.keep(C, 2 * QUARTER + 64)

    assert keys(worker) == [A, B]


def test_entries_make_room_for_blocks(worker):
    """As many as it takes, the least recently used first."""
    for key in (A, B, C, D):
        worker.keep(key)
    assert worker.pool.stats().free_bytes == SIZE  # what is cached can be taken

    block = worker.pool.allocate(QUARTER + 64, "r2", 1)

    assert block.handle.offset == 0
    assert keys(worker) == [C, D]


def test_held_entries_do_not_make_room(worker):
    """Whatever is asked for."""
    for key in (A, B, C, D):
        worker.keep(key)
    found = worker.seek(A)

    assert worker.pool.allocate(3 * QUARTER + 64, "r2", 1) is None
    block = worker.pool.allocate(3 * QUARTER, "r2", 1)

    assert block is not None
    assert keys(worker) == [A]
    assert first_byte(found) == A[0]


def test_entries_do_not_go_for_what_would_not_fit_all_the_same(worker):
    """One that waits for room asks again and again; the cache is to be left until that helps."""
    worker.keep(A)
    held = worker.pool.allocate(2 * QUARTER, "r1", 1)

    assert worker.pool.allocate_all([QUARTER, QUARTER + 64], "r2", 1) is None
    assert keys(worker) == [A]
    worker.pool.free(held.handle)
    assert worker.pool.allocate_all([QUARTER, QUARTER + 64], "r2", 1) is not None


def test_entries_do_not_go_when_it_is_holds_that_are_missing(worker, join):
    """They have none to give."""
    worker.keep(A)
    worker.pool.share([worker.pool.allocate(64, "r1", 1).handle], ["rank"] * (2 * slots_for(SIZE) - 1))

    assert worker.pool.allocate(64, "r2", 1) is None
    assert worker.seek(A) is None  # it is there, but cannot be held

    assert keys(worker) == [A]


def test_a_pinned_entry_stays(worker):
    """Whatever room is needed, whatever the budget; until it is let go."""
    worker.keep(A)
    worker.keep(B)

    assert worker.cache.pin(A.hex()) is True
    worker.cache.set_budget(0)
    assert worker.pool.allocate(SIZE, "r2", 1) is None
    assert [(entry.key, entry.is_pinned) for entry in worker.cache.entries()] == [(A.hex(), True)]

    assert worker.cache.pin(A.hex(), pinned=False) is True
    assert is_empty(worker.pool)
    assert worker.cache.pin(A.hex()) is False


def test_clearing_forgets_every_entry(worker):
    """Pinned ones too; one in use goes with its last hold."""
    worker.keep(A)
    worker.keep(B)
    worker.cache.pin(A.hex())
    found = worker.seek(B)

    assert worker.cache.clear() == 2

    assert (worker.cache.entries(), worker.pool.stats().used_bytes) == ([], QUARTER)
    assert first_byte(found) == B[0]
    assert isinstance(worker.seek(B), Flight)
    worker.pool.free(found.block.handle)
    assert is_empty(worker.pool)


def test_the_list_of_entries_says_what_an_operator_needs(worker):
    """Which, how large, who holds it, what it is."""
    handle = worker.make(A, note=b"8x8")

    [entry] = worker.cache.entries()

    assert (entry.key, entry.offset, entry.length, entry.holds) == (A.hex(), handle.offset, QUARTER, 1)
    assert (entry.is_pinned, entry.note) == (False, b"8x8")
    stats = worker.pool.stats()
    assert (stats.entries, stats.blocks, stats.used_bytes, stats.cached_bytes) == (1, 1, QUARTER, 0)
    worker.pool.free(handle)
    stats = worker.pool.stats()
    assert (stats.entries, stats.blocks, stats.used_bytes, stats.cached_bytes) == (1, 0, 0, QUARTER)


def test_an_item_that_stands_there_twice_is_there_until_its_last_reader_has_gone(worker, join):
    """C054: A, B, A with a cache for two. Nothing goes before the last reader; each is given back exactly once."""
    worker.cache.set_budget(2 * QUARTER)
    made = [worker.make(key) for key in (A, B)]  # the request needs A once, whatever it has of spans
    other = join()
    again = other.seek(A)

    for handle in made:
        worker.pool.park(handle)
    reader = join("scheduler")
    blocks = [reader.pool.take(handle) for handle in made]
    worker.cache.set_budget(0)
    assert worker.pool.allocate(2 * QUARTER + 64, "r2", 1) is None
    assert [first_byte(Found(block, b"")) for block in (blocks[0], blocks[1], blocks[0])] == [A[0], B[0], A[0]]
    assert [reader.pool.free(handle) for handle in (*made, *made)] == [True, True, False, False]

    assert first_byte(again) == A[0]
    assert keys(worker) == [A]
    assert other.pool.free(again.block.handle) is True
    assert is_empty(worker.pool)
