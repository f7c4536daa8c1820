"""What must be true of a pool's table whenever nobody is changing it, worked out anew from the columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from handoff.pool import Pool
from handoff.pool.cache import tag_of
from handoff.pool.table import ALIGNMENT, Number, Table


def audit(pool: Pool) -> None:
    """Look at everything, with the eyes of the next process that takes the lock."""
    with pool.locked() as table:
        assert table.numbers[Number.DIRTY] == 0
        _holds_and_blocks(table)
        _order_and_gaps(table, pool.data_bytes)
        _entries(table)
        _numbers(table)


def _holds_and_blocks(table: Table) -> None:
    """Every hold is on a block, every block has a hold or is an entry, and no number was given twice."""
    held = np.flatnonzero(table.state)
    refs = np.bincount(table.block[held], minlength=table.slots)
    assert table.refs.tolist() == refs.tolist()
    assert (table.taken > 0).tolist() == ((refs > 0) | (table.entry > 0)).tolist()
    generations = table.generation[held].tolist()
    assert len(set(generations)) == len(generations)
    assert all(0 < generation <= table.numbers[Number.GENERATION] for generation in generations)


def _order_and_gaps(table: Table, data_bytes: int) -> None:
    """The blocks in the order of their offsets; they and the gaps between them are all of the data."""
    count = table.numbers[Number.BLOCKS]
    starts, ends = table.starts[: count + 1].tolist(), table.ends[: count + 1].tolist()
    taken = np.flatnonzero(table.taken)
    order = taken[np.argsort(table.offset[taken])]
    assert count == len(order)
    assert starts[:-1] == table.offset[order].tolist()
    assert ends[1:] == (table.offset[order] + table.length[order]).tolist()
    assert (ends[0], starts[-1]) == (0, data_bytes // ALIGNMENT * ALIGNMENT)
    gaps = [start - end for start, end in zip(starts, ends, strict=True)]
    assert min(gaps) >= 0  # no two blocks share a byte
    assert all(start % ALIGNMENT == 0 for start in starts)
    assert sum(gaps) + int(table.length[order].sum()) == starts[-1]
    assert all(first < second for first, second in pairwise(starts[:-1]))


def _entries(table: Table) -> None:
    """Every entry is found under its key, and under that alone; its description lies within its block."""
    slots = np.flatnonzero(table.entry).tolist()
    keys = [table.key[slot].tobytes() for slot in slots]
    assert len(set(keys)) == len(keys)
    for slot, key in zip(slots, keys, strict=True):
        assert table.tag[slot] == tag_of(key)
        assert int(table.note_start[slot]) + int(table.note_length[slot]) <= int(table.length[slot])


def _numbers(table: Table) -> None:
    """What is counted is what there is."""
    idle = (table.entry > 0) & (table.refs == 0)
    assert table.numbers[Number.CACHED_BYTES] == int(table.length[idle].sum())
    assert table.numbers[Number.WAITING] == int(np.count_nonzero(table.waiters["turn"]))


def is_empty(pool: Pool) -> bool:
    """Whether nothing is taken: one gap, which is all of the data."""
    stats = pool.stats()
    return (stats.free_bytes, stats.cached_bytes, stats.blocks, stats.entries) == (pool.data_bytes, 0, 0, 0)
