"""Which bytes of the pool are taken: its blocks in the order of their offsets, and the gaps between them.

A gap is looked for in a handful of vector operations, so taking and giving back cost the same few microseconds
whether ten blocks are taken or a thousand.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from handoff.pool.table import ALIGNMENT, Number, Table

_SMALL_SHARE = 1024  # below a thousandth of the pool: token ids, positions


def clear(table: Table, data_bytes: int) -> None:
    """Nothing is taken."""
    table.ends[0] = 0
    table.starts[0] = _usable(data_bytes)
    table.numbers[Number.BLOCKS] = 0


def rebuild(table: Table, data_bytes: int) -> None:
    """Put the blocks in order anew, from their offsets."""
    slots = in_order(table)
    count = len(slots)
    table.starts[:count] = table.offset[slots]
    table.starts[count] = _usable(data_bytes)
    table.ends[0] = 0
    table.ends[1 : count + 1] = table.offset[slots] + table.length[slots]
    table.numbers[Number.BLOCKS] = count


def in_order(table: Table) -> npt.NDArray[np.intp]:
    """The blocks' slots, by their offsets."""
    slots = np.flatnonzero(table.taken)
    return slots[np.argsort(table.offset[slots], kind="stable")]


def gap(table: Table, size: int) -> tuple[int, int] | None:
    """Where ``size`` bytes fit: the place in the order, and the offset.

    Large blocks take the first gap, small ones the last: token ids that lie between pictures would leave gaps that
    no picture fits.
    """
    count = table.numbers[Number.BLOCKS] + 1
    starts, ends = table.starts[:count], table.ends[:count]
    fits = starts - ends >= np.uint64(size)
    is_small = size * _SMALL_SHARE < int(starts[-1])
    place = count - 1 - int(fits[::-1].argmax()) if is_small else int(fits.argmax())
    if not fits[place]:
        return None
    return place, int(starts[place]) - size if is_small else int(ends[place])


def insert(table: Table, place: int, slot: int) -> None:
    """Note a block at its place in the order."""
    count = table.numbers[Number.BLOCKS]
    table.shift(table.starts_at, place, place + 1, count + 1 - place)
    table.shift(table.ends_at, place + 1, place + 2, count - place)
    cells = table.cells
    offset = cells.offset[slot]
    cells.starts[place] = offset
    cells.ends[place + 1] = offset + cells.length[slot]
    table.numbers[Number.BLOCKS] = count + 1


def remove(table: Table, slot: int) -> None:
    """Take a block out of the order."""
    count = table.numbers[Number.BLOCKS]
    place = bisect_left(table.cells.starts, table.cells.offset[slot], 0, count)
    table.shift(table.starts_at, place + 1, place, count - place)
    table.shift(table.ends_at, place + 2, place + 1, count - place - 1)
    table.numbers[Number.BLOCKS] = count - 1


def _usable(data_bytes: int) -> int:
    return data_bytes // ALIGNMENT * ALIGNMENT
