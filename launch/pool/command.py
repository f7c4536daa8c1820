"""The ``forebay pool`` commands."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from forebay.cli import configuration_errors
from forebay.errors import ConfigurationError
from handoff.pool import FeatureCache, Pool
from launch.pool import check as checks
from launch.pool import view
from launch.pool.find import find_pool, folder_of

_LIVE_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Opened:
    """The pool that a command is about."""

    pool: Pool
    folder: Path
    console: Console

    @property
    def cache(self) -> FeatureCache:
        return FeatureCache(self.pool)


@click.group(invoke_without_command=True)
@click.option("--dir", "folder", metavar="DIR", help="The node's folder on tmpfs; FOREBAY_RUN_DIR otherwise.")
@click.option("--live", is_flag=True, help="Draw it again and again, until Ctrl-C.")
@click.pass_context
def pool(ctx: click.Context, folder: str | None, live: bool) -> None:
    """Show this node's feature pool: state, size, age, request of each block, and owners that have died."""
    with configuration_errors():
        path = find_pool(folder_of(folder))
        ctx.obj = opened = Opened(Pool(path, "viewer", writable=False), path.parent, Console())
    if ctx.invoked_subcommand is not None:
        return
    if live:
        _watch(opened)
    else:
        opened.console.print(view.drawn(opened.pool, opened.folder))


def _watch(opened: Opened) -> None:
    try:
        with Live(console=opened.console, auto_refresh=False, screen=True) as screen:
            while True:
                screen.update(view.drawn(opened.pool, opened.folder), refresh=True)
                time.sleep(_LIVE_EVERY_S)
    except KeyboardInterrupt:
        return


@pool.command()
@click.pass_obj
def check(opened: Opened) -> None:
    """Name what the janitor would remove or replay now, and do nothing about it. Exits with 1 if there is something."""
    with configuration_errors():
        found = checks.look(opened.pool, opened.folder)
    opened.console.print(checks.table(found), soft_wrap=True)
    if found.findings or found.judgements:
        raise SystemExit(1)


@pool.command()
@click.pass_obj
def cache(opened: Opened) -> None:
    """List the cached features, the least recently used first."""
    opened.console.print(view.entries(opened.cache.entries()))


@pool.command()
@click.argument("key")
@click.option("--off", is_flag=True, help="Let it go again when room is needed.")
@click.pass_obj
def pin(opened: Opened, key: str, off: bool) -> None:
    """Keep a cached feature whatever room is needed. KEY is the beginning of its key, as `cache` shows it."""
    with configuration_errors():
        whole = view.whole_key(opened.cache.entries(), key)
        if not opened.cache.pin(whole, pinned=not off):
            raise ConfigurationError(f"the entry {key} has gone meanwhile")
    opened.console.print(f"{whole[:16]} {'may go' if off else 'stays'}")


@pool.command()
@click.pass_obj
def clear(opened: Opened) -> None:
    """Forget every cached feature; those in use go when their requests are done."""
    opened.console.print(f"{opened.cache.clear()} entries forgotten")
