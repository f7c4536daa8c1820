"""Blocks and the holds on them. A block lives while somebody holds it, or while it is a cache entry.

Every change is made in an order that leaves the truth whole: a hold's state comes after all that it speaks of, and goes
first. ``repair`` works out the rest when a process has died, or was interrupted, half way.
"""

from __future__ import annotations

import time

import numpy as np

from handoff.pool import space
from handoff.pool.table import HoldState, Number, Table

_WRITING = int(HoldState.WRITING)


def allocate(table: Table, size: int, owner: str, rid: str, attempt: int) -> int | None:
    """A new block with one hold on it, of its writer; the hold's row, or ``None`` when there is no room now."""
    slot, row = table.free_slot(), table.free_hold()
    found = space.gap(table, size)
    if slot is None or row is None or found is None:
        return None
    place, offset = found
    cells = table.cells
    cells.offset[slot], cells.length[slot] = offset, size
    cells.entry[slot] = cells.pinned[slot] = cells.refs[slot] = 0
    _write_hold(table, row, slot, (owner, "", rid, attempt), _WRITING)
    cells.refs[slot] = cells.taken[slot] = 1
    space.insert(table, place, slot)
    return row


def hold(table: Table, slot: int, who: tuple[str, str, str, int], state: int) -> int | None:
    """One more hold on a block, for (owner, reader, request, attempt); ``None`` when the table is full."""
    row = table.free_hold()
    if row is None:
        return None
    if not table.cells.refs[slot]:
        table.numbers[Number.CACHED_BYTES] -= table.cells.length[slot]
    _write_hold(table, row, slot, who, state)
    table.cells.refs[slot] += 1
    return row


def _write_hold(table: Table, row: int, slot: int, who: tuple[str, str, str, int], state: int) -> None:
    table.write_detail(row, who, time.time())
    table.cells.generation[row] = table.next_generation()
    table.cells.block[row] = slot
    table.cells.lapses[row] = 0
    table.cells.state[row] = state


def drop(table: Table, row: int) -> None:
    """Give up a hold. The last one takes the block with it, unless it is a cache entry."""
    cells = table.cells
    slot = cells.block[row]
    cells.state[row] = 0
    cells.refs[slot] -= 1
    if cells.refs[slot]:
        return
    if cells.entry[slot]:
        cells.used[slot] = table.tick()
        table.numbers[Number.CACHED_BYTES] += cells.length[slot]
        return
    give_back(table, slot)


def give_back(table: Table, slot: int) -> None:
    """The bytes of a block that nobody holds are free again."""
    table.cells.taken[slot] = 0
    space.remove(table, slot)


def repair(table: Table, data_bytes: int) -> None:
    """Work out everything that follows from offsets, hold states and cache entries."""
    held = np.flatnonzero(table.state)
    table.refs[:] = np.bincount(table.block[held], minlength=table.slots)
    table.entry[:] = table.entry != 0
    table.taken[:] = (table.refs > 0) | (table.entry > 0)
    table.numbers[Number.WAITING] = int(np.count_nonzero(table.waiters["turn"]))
    idle = (table.entry > 0) & (table.refs == 0)
    table.numbers[Number.CACHED_BYTES] = int(table.length[idle].sum())
    space.rebuild(table, data_bytes)
