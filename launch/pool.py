"""``forebay pool``: what lies in a node's feature pool now, and what of it belongs to the dead."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Column, Table

from forebay.cli import configuration_errors
from forebay.errors import ConfigurationError
from forebay.settings import NodeSettings, load
from handoff.pool import BlockInfo, Pool, PoolStats, is_alive
from handoff.pool.table import HoldState
from launch.folders import SHM

_MAP_CELLS = 64
_SHADES = {HoldState.WRITING: "w", HoldState.PARKED: "p", HoldState.READING: "r"}
_SHOWN = 50


@click.command()
@click.option("--dir", "folder", metavar="DIR", help="The node's folder on tmpfs; FOREBAY_RUN_DIR otherwise.")
def pool(folder: str | None) -> None:
    """Show the blocks of this node's feature pool: state, size, age, request, and owners that have died."""
    console = Console()
    with configuration_errors():
        path = find_pool(_folder(folder), SHM)
        opened = Pool(path, "viewer", writable=False)
    _show(console, opened.stats(), opened.blocks(), path.parent)


def find_pool(folder: Path, shm: Path) -> Path:
    """The pool of a folder; where there is none, the only one that a deployment on this machine has.

    Raises:
        ConfigurationError: none, or several to choose from.
    """
    path = folder / "pool"
    others = sorted(shm.glob("forebay-*/pool"))
    if path.exists():
        return path
    if len(others) == 1:
        return others[0]
    choice = f"; there are: {', '.join(str(other.parent) for other in others)}" if others else ""
    raise ConfigurationError(f"no feature pool at {path}{choice}")


def _folder(given: str | None) -> Path:
    """The folder that was named, else the one that the node's processes use."""
    if given:
        return Path(given)
    return load(NodeSettings, {"FOREBAY_SECRET": "0" * 32}).folder  # looking needs no secret


def _show(console: Console, stats: PoolStats, blocks: list[BlockInfo], folder: Path) -> None:
    used, whole = _mib(stats.used_bytes), _mib(stats.data_bytes)
    console.print(f"{folder}: {stats.blocks} blocks, {used} of {whole} MiB taken")
    console.print(f"|{pool_map(blocks, stats.data_bytes)}|  w written  p parked  r read  . free")
    if not blocks:
        return
    fold = [Column(name, overflow="fold") for name in ("request", "writer", "reader")]
    table = Table("state", "MiB", "age s", "attempt", *fold)
    for block in sorted(blocks, key=lambda one: one.since)[:_SHOWN]:
        table.add_row(*_row(block, folder))
    console.print(table)
    if len(blocks) > _SHOWN:
        console.print(f"and {len(blocks) - _SHOWN} younger ones")


def pool_map(blocks: list[BlockInfo], data_bytes: int) -> str:
    """The pool as a line of characters, each the state of most of its part."""
    cells = ["."] * _MAP_CELLS
    for block in blocks:
        first = block.handle.offset * _MAP_CELLS // data_bytes
        last = (block.handle.offset + block.handle.length - 1) * _MAP_CELLS // data_bytes
        for cell in range(first, last + 1):
            cells[cell] = _SHADES[block.state]
    return "".join(cells)


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


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f}"
