"""Cache entries: blocks whose content may be asked for again, and what is being made to become one.

A key is 32 bytes; its first eight, as a number, are searched first. An entry with holds on it is in use and stays; the
others go, the least recently used first, when the pool needs room or the budget is spent.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from handoff.pool import ledger, space
from handoff.pool.table import Number, Table

READY = 1
_FEW = 16


def tag_of(key: bytes) -> np.uint64:
    """The part of a key that is searched first. Zero is no tag: it marks what is free."""
    return np.uint64(int.from_bytes(key[:8], "little") or 1)


def find(table: Table, key: bytes) -> int | None:
    """The block whose content a key names."""
    for slot in np.flatnonzero(table.tag == tag_of(key)).tolist():
        if table.entry[slot] and table.key[slot].tobytes() == key:
            return int(slot)
    return None


def enter(table: Table, slot: int, key: bytes, note: tuple[int, int]) -> None:
    """Make a held block the entry of a key; ``note`` is where in it its description lies, and how long that is."""
    earlier = find(table, key)
    if earlier is not None:
        return  # made twice, because somebody gave up waiting: the first stays, and this one goes with its holds
    table.tag[slot], table.key[slot] = tag_of(key), np.frombuffer(key, np.uint8)
    table.note_start[slot], table.note_length[slot] = note
    table.used[slot] = table.tick()
    table.entry[slot] = READY


def forget(table: Table, slot: int) -> None:
    """An entry is one no more. Its block goes with the last hold on it, at once if there is none."""
    table.entry[slot] = table.pinned[slot] = 0
    table.tag[slot] = 0
    if not table.refs[slot]:
        table.numbers[Number.CACHED_BYTES] -= int(table.length[slot])
        ledger.give_back(table, slot)


def forget_all(table: Table, slots: npt.NDArray[np.intp], data_bytes: int) -> None:
    """``forget`` for many at once: the order of the blocks is made anew once, not for each of them."""
    table.entry[slots] = 0
    table.pinned[slots] = 0
    table.tag[slots] = 0
    gone = slots[table.refs[slots] == 0]
    table.numbers[Number.CACHED_BYTES] -= int(table.length[gone].sum())
    table.taken[gone] = 0
    space.rebuild(table, data_bytes)


def can_make_room(table: Table, sizes: Sequence[int]) -> bool:
    """Whether blocks of these sizes may find room once every entry is gone that may go.

    The largest must fit between those that stay, and all of them together into what is then free.
    """
    if table.free_hold() is None:  # entries that nobody holds have none to give
        return False
    count = table.numbers[Number.BLOCKS]
    order = space.in_order(table)
    stays = order[(table.refs[order] > 0) | (table.pinned[order] > 0)]
    starts = np.append(table.offset[stays], table.starts[count])
    ends = np.append(np.uint64(0), table.offset[stays] + table.length[stays])
    gaps = starts - ends
    return int(gaps.max()) >= max(sizes) and int(gaps.sum()) >= sum(sizes)


def idle(table: Table) -> list[int]:
    """Entries that may go, the least recently used first."""
    slots = _idle(table)
    return [int(slot) for slot in slots[np.argsort(table.used[slots])]]


def evict(table: Table, slot: int) -> None:
    """Forget an entry that nobody holds, to make room."""
    forget(table, slot)
    table.numbers[Number.EVICTIONS] += 1


def trim(table: Table, data_bytes: int) -> None:
    """Keep what nobody holds within the budget. An entry that is larger than all of it takes no other with it."""
    budget, cached = table.numbers[Number.CACHE_BUDGET], table.numbers[Number.CACHED_BYTES]
    if cached <= budget:
        return
    slots = _idle(table)
    # The larger ones first, then by age: as many as it takes.
    order = slots[np.lexsort((table.used[slots], table.length[slots] <= budget))]
    left = cached - np.cumsum(table.length[order].astype(np.int64))
    going = order[: int(np.searchsorted(-left, -budget)) + 1]
    table.numbers[Number.EVICTIONS] += len(going)
    if len(going) > _FEW:
        forget_all(table, going, data_bytes)
        return
    for slot in going.tolist():
        forget(table, slot)


def _idle(table: Table) -> npt.NDArray[np.intp]:
    return np.flatnonzero((table.entry > 0) & (table.refs == 0) & (table.pinned == 0))


# what is being made


def flight_of(table: Table, key: bytes) -> int | None:
    """Who is making the entry of a key: the row."""
    for row in np.flatnonzero(table.flight_tag == tag_of(key)).tolist():
        if table.flights["serial"][row] and table.flight_key[row].tobytes() == key:
            return int(row)
    return None


def start_flight(table: Table, key: bytes, owner: str) -> tuple[int, int] | None:
    """Say that ``owner`` makes the entry of a key; row and serial, or ``None`` when too many are being made."""
    free = np.flatnonzero(table.flights["serial"] == 0)
    if not free.size:
        return None
    row = int(free[0])
    table.flight_tag[row], table.flight_key[row] = tag_of(key), np.frombuffer(key, np.uint8)
    return row, _take_flight(table, row, owner)


def _take_flight(table: Table, row: int, owner: str) -> int:
    serial = table.next_generation()
    table.flights[row] = (0, time.time(), owner.encode())
    table.flights["serial"][row] = serial
    return serial


def take_over(table: Table, row: int, owner: str) -> tuple[int, int]:
    """Make what a dead process was making."""
    return row, _take_flight(table, row, owner)


def end_flight(table: Table, row: int, serial: int) -> bool:
    """It is made, or will not be. ``False``, and harmless, when it has ended, or somebody else has taken it over."""
    if table.flights["serial"][row] != serial:
        return False
    table.flights["serial"][row] = 0
    table.flight_tag[row] = 0
    return True


def end_flights(table: Table, owner: str) -> None:
    """Whatever ``owner`` was making, it will not make."""
    for row in np.flatnonzero(table.flights["owner"] == owner.encode()).tolist():
        end_flight(table, row, int(table.flights["serial"][row]))
