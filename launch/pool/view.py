"""Drawing a pool in the terminal: a map, the blocks that somebody holds, who waits, the cached features."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from forebay.errors import ConfigurationError
from handoff.note import Note
from handoff.pool import BlockInfo, EntryInfo, FeatureCache, HoldState, Pool, PoolStats, Waiter, is_alive

_MAP_CELLS = 64
_SHADES = {
    HoldState.WRITING: "w",
    HoldState.PARKED: "p",
    HoldState.READING: "r",
    HoldState.SHARED: "r",
}
_CACHED = "c"
_SHOWN = 50
_DIGEST = 8  # digits: enough to tell pictures apart, and the row fits a terminal


def drawn(pool: Pool, folder: Path) -> Group:
    """The whole view, as it is now."""
    stats, blocks, cached = pool.stats(), pool.blocks(), FeatureCache(pool).entries()
    lines = [
        Text(f"{folder}: {_summary(stats)}"),
        Text(f"|{pool_map(blocks, cached, stats.data_bytes)}|"),
        Text(" w written  p parked  r read  c cached, held by nobody  . free"),
        Text(_counted(stats)),
    ]
    return Group(*lines, *_blocks(blocks, folder), *_line(pool.waiting(), folder))


def _summary(stats: PoolStats) -> str:
    used, cached, whole = (_mib(size) for size in (stats.used_bytes, stats.cached_bytes, stats.data_bytes))
    waiting = f"; {stats.waiting} waiting for room" if stats.waiting else ""
    return (
        f"{stats.blocks} blocks, {used} of {whole} MiB taken; "
        f"{stats.entries} cached features, {cached} MiB held by nobody{waiting}"
    )


def _counted(stats: PoolStats) -> str:
    of = stats.counters
    return (
        f"since it was made: {of['hits']} hits, {of['misses']} misses, {of['attaches']} attached, "
        f"{of['evictions']} evicted; {of['waits']} waits of {of['waited_ms'] / 1000:.1f} s together; "
        f"{_mib(of['copied_bytes'])} MiB copied; {of['late_results']} late results; {of['orphans']} blocks of the dead"
    )


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


def _blocks(blocks: Sequence[BlockInfo], folder: Path) -> list[Table | Text]:
    """A row for each hold: a block that several requests share stands there for each of them."""
    if not blocks:
        return []
    fold = [Column(name, overflow="fold") for name in ("request", "writer", "reader")]
    table = Table("state", "MiB", "age s", "attempt", *fold)
    for block in sorted(blocks, key=lambda one: one.since)[:_SHOWN]:
        table.add_row(*_row(block, folder))
    more = [Text(f"and {len(blocks) - _SHOWN} younger ones")] if len(blocks) > _SHOWN else []
    return [table, *more]


def _line(waiting: Sequence[Waiter], folder: Path) -> list[Table]:
    """Who waits for room, in the order in which they get it."""
    if not waiting:
        return []
    table = Table("waiting for MiB", "since s", Column("worker", overflow="fold"))
    for waiter in waiting:
        since = f"{time.time() - waiter.since:.1f}"
        table.add_row(_mib(waiter.length), since, _with_life(waiter.owner, folder))
    return [table]


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


def cached_features(cache: FeatureCache) -> Group:
    """The cache: what may go when room is needed, and what may not."""
    cached = cache.entries()
    idle, budget = _mib(sum(entry.length for entry in cached if not entry.holds)), _mib(cache.budget_bytes)
    line = Text(
        f"{len(cached)} cached features, {idle} MiB held by nobody, of at most {budget}; "
        f"{len(cache.flights())} being made"
    )
    return Group(line, *([_entries(cached)] if cached else []))


def _entries(cached: Sequence[EntryInfo]) -> Table:
    names = ("key", "MiB", "holds", "pinned", "feature", "media, sha256")
    table = Table(*(Column(name, no_wrap=True) for name in names))
    for entry in cached:
        note, pinned = Note.unpack(entry.note), "yes" if entry.is_pinned else ""
        feature = f"{note.dtype} {'x'.join(map(str, note.shape))}"
        media = f"{note.modality} {note.digest.removeprefix('sha256:')[:_DIGEST]}…"
        table.add_row(entry.key[:16], _mib(entry.length), str(entry.holds), pinned, feature, media)
    return table


def whole_key(cached: Sequence[EntryInfo], beginning: str) -> str:
    """The key that begins so.

    Raises:
        ConfigurationError: none does, or several do.
    """
    keys = [entry.key for entry in cached if beginning and entry.key.startswith(beginning.lower())]
    if not keys:
        raise ConfigurationError(f"none of the {len(cached)} cached features has a key that begins with {beginning!r}")
    if len(keys) > 1:
        raise ConfigurationError(
            f"{len(keys)} cached features have a key that begins with {beginning!r}; give more of it"
        )
    return keys[0]


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
