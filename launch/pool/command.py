"""The ``forebay pool`` commands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from forebay.cli import HelpFirst, configuration_errors
from forebay.errors import ConfigurationError, Failed
from handoff.pool import FeatureCache, Pool
from launch.pool import check as checks
from launch.pool import view
from launch.pool.find import find_pool, folder_of, is_named

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


@click.group(cls=HelpFirst, invoke_without_command=True)
@click.option("--dir", "folder", metavar="DIR", help="The node's folder on tmpfs; FOREBAY_RUN_DIR otherwise.")
@click.option("--live", is_flag=True, help="Draw it again and again, until Ctrl-C.")
@click.pass_context
def pool(ctx: click.Context, folder: str | None, live: bool) -> None:
    """Show this node's feature pool: state, size, age, request of each block, and owners that have died."""
    if live and ctx.invoked_subcommand is not None:
        raise click.UsageError(f"--live draws the pool; it does not go with {ctx.invoked_subcommand!r}")
    with plain_errors():
        path = find_pool(folder_of(folder), was_named=is_named(folder))
        ctx.obj = opened = Opened(Pool(path, "viewer", writable=False, prefault=False), path.parent, Console())
        if live:
            _watch(opened)
        elif ctx.invoked_subcommand is None:
            opened.console.print(view.drawn(opened.pool, opened.folder), soft_wrap=True)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one line what is wrong with the pool, or with Redis, and exit with 2."""
    with configuration_errors():
        try:
            yield
        except Failed as error:
            raise ConfigurationError(error.message) from error
        except PermissionError as error:
            raise ConfigurationError(f"{error.filename}: {error.strerror}; it is another user's") from error


def _watch(opened: Opened) -> None:
    """Draw it until Ctrl-C.

    Raises:
        ConfigurationError: the pool is no longer the one that others use.
    """
    with suppress(KeyboardInterrupt), Live(console=opened.console, auto_refresh=False, screen=True) as screen:
        while opened.pool.is_in_place():
            screen.update(view.drawn(opened.pool, opened.folder), refresh=True)
            time.sleep(_LIVE_EVERY_S)
        raise ConfigurationError(f"{opened.pool.path} was removed, replaced or cut off")


@pool.command()
@click.pass_obj
def check(opened: Opened) -> None:
    """Name what the janitor would remove or replay now, and do nothing about it. Exits with 1 if there is something."""
    with plain_errors():
        found = checks.look(opened.pool, opened.folder)
    opened.console.print(checks.table(found), soft_wrap=True)
    if found.is_anything:
        raise SystemExit(1)


@pool.command()
@click.pass_obj
def cache(opened: Opened) -> None:
    """List the cached features, the least recently used first."""
    with plain_errors():
        opened.console.print(view.cached_features(opened.cache))


@pool.command()
@click.argument("key")
@click.option("--off", is_flag=True, help="Let it go again when room is needed.")
@click.pass_obj
def pin(opened: Opened, key: str, off: bool) -> None:
    """Keep a cached feature whatever room is needed. KEY is the beginning of its key, as `cache` shows it."""
    with plain_errors():
        whole = view.whole_key(opened.cache.entries(), key)
        if not opened.cache.pin(whole, pinned=not off):
            raise ConfigurationError(f"the entry {key} has gone meanwhile")
    opened.console.print(f"{whole[:16]} {'may go' if off else 'stays'}")


@pool.command()
@click.pass_obj
def clear(opened: Opened) -> None:
    """Forget every cached feature; those in use go when their requests are done."""
    with plain_errors():
        opened.console.print(f"{opened.cache.clear()} cached features forgotten")
