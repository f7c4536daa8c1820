"""Cache entries: blocks whose content may be asked for again, and what is being made to become one.

A key is 32 bytes; its first eight, as a number, are searched first. An entry with holds on it is in use and stays; the
others go, the least recently used first, when the pool needs room or the budget is spent.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from handoff.pool import ledger
from handoff.pool.table import Number, Table

READY = 1


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


def can_make_room(table: Table, size: int) -> bool:
    """Whether so many bytes can be taken, in one piece or in several, once every entry is gone that may go."""
    if table.free_hold() is None:  # entries that nobody holds have none to give
        return False
    stays = (table.refs > 0) | (table.pinned > 0)
    return int(table.starts[table.numbers[Number.BLOCKS]]) - int(table.length[stays].sum()) >= size


def evict_one(table: Table) -> bool:
    """Forget the least recently used entry that nobody holds; ``False`` when there is none."""
    return _evict(table, _idle(table))


def trim(table: Table) -> None:
    """Keep what nobody holds within the budget. An entry that is larger than all of it takes no other with it."""
    budget = table.numbers[Number.CACHE_BUDGET]
    while table.numbers[Number.CACHED_BYTES] > budget:
        idle = _idle(table)
        large = idle[table.length[idle] > budget]
        if not _evict(table, large if large.size else idle):
            return


def _idle(table: Table) -> npt.NDArray[np.intp]:
    return np.flatnonzero((table.entry > 0) & (table.refs == 0) & (table.pinned == 0))


def _evict(table: Table, idle: npt.NDArray[np.intp]) -> bool:
    if not idle.size:
        return False
    forget(table, int(idle[table.used[idle].argmin()]))
    table.numbers[Number.EVICTIONS] += 1
    return True


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
