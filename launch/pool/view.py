"""Drawing a pool in the terminal: a map, the blocks that somebody holds, the cached features."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from forebay.errors import ConfigurationError
from handoff.note import Note
from handoff.pool import BlockInfo, EntryInfo, FeatureCache, HoldState, Pool, PoolStats, is_alive

_MAP_CELLS = 64
_SHADES = {
    HoldState.WRITING: "w",
    HoldState.PARKED: "p",
    HoldState.READING: "r",
    HoldState.SHARED: "r",
}
_CACHED = "c"
_SHOWN = 50


def drawn(pool: Pool, folder: Path) -> Group:
    """The whole view, as it is now."""
    stats, blocks, cached = pool.stats(), pool.blocks(), FeatureCache(pool).entries()
    picture = pool_map(blocks, cached, stats.data_bytes)
    lines = [
        Text(f"{folder}: {_summary(stats)}"),
        Text(f"|{picture}|  w written  p parked  r read  c cached  . free"),
        Text(_counted(stats)),
    ]
    return Group(*lines, *([_blocks(blocks, folder)] if blocks else []), *_more(blocks))


def _summary(stats: PoolStats) -> str:
    used, cached, whole = (_mib(size) for size in (stats.used_bytes, stats.cached_bytes, stats.data_bytes))
    waiting = f", {stats.waiting} waiting for room" if stats.waiting else ""
    return (
        f"{stats.blocks} blocks, {used} of {whole} MiB taken, {cached} MiB cached in {stats.entries} entries{waiting}"
    )


def _counted(stats: PoolStats) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in stats.counters.items())


def pool_map(blocks: Sequence[BlockInfo], cached: Sequence[EntryInfo], data_bytes: int) -> str:
    """The pool as a line of characters, each the state of what lies in its part."""
    cells = ["."] * _MAP_CELLS
    places = [(entry.offset, entry.length, _CACHED) for entry in cached if not entry.holds]
    places += [(block.handle.offset, block.handle.length, _SHADES[block.state]) for block in blocks]
    for offset, length, shade in places:
        first = offset * _MAP_CELLS // data_bytes
        last = (offset + length - 1) * _MAP_CELLS // data_bytes
        cells[first : last + 1] = shade * (last + 1 - first)
    return "".join(cells)


def _blocks(blocks: Sequence[BlockInfo], folder: Path) -> Table:
    fold = [Column(name, overflow="fold") for name in ("request", "writer", "reader")]
    table = Table("state", "MiB", "age s", "attempt", *fold)
    for block in sorted(blocks, key=lambda one: one.since)[:_SHOWN]:
        table.add_row(*_row(block, folder))
    return table


def _more(blocks: Sequence[BlockInfo]) -> list[Text]:
    return [Text(f"and {len(blocks) - _SHOWN} younger ones")] if len(blocks) > _SHOWN else []


def _row(block: BlockInfo, folder: Path) -> tuple[str, ...]:
    return (
        block.state.name.lower(),
        _mib(block.handle.length),
        f"{time.time() - block.since:.1f}",
        str(block.attempt),
        block.rid,
        _with_life(block.owner, folder),
        _with_life(block.reader, folder),
    )


def _with_life(owner: str, folder: Path) -> str:
    if not owner:
        return "none"
    return owner if is_alive(folder, owner) else f"{owner} (dead)"


def entries(cached: Sequence[EntryInfo]) -> Table:
    """The cached features."""
    table = Table("key", "MiB", "held by", "pinned", Column("media", overflow="fold"))
    for entry in cached:
        held, pinned = f"{entry.holds} requests", "yes" if entry.is_pinned else ""
        table.add_row(entry.key[:16], _mib(entry.length), held, pinned, Note.unpack(entry.note).digest)
    return table


def whole_key(cached: Sequence[EntryInfo], beginning: str) -> str:
    """The key that begins so.

    Raises:
        ConfigurationError: none does, or several do.
    """
    keys = [entry.key for entry in cached if entry.key.startswith(beginning.lower())]
    if len(keys) != 1:
        counts = f"{len(keys)} of {len(cached)}"
        raise ConfigurationError(f"{counts} cached features have a key that begins with {beginning!r}")
    return keys[0]


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
