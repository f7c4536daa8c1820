"""``forebay quarantine``: what workers of a deployment have set aside, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from forebay.cli import HelpFirst, configuration_errors
from forebay.errors import ConfigurationError, Failed
from forebay.settings import load, read_name, read_redis_url, setting
from handoff import quarantine as store
from handoff.connection import Client, connect, require
from handoff.keys import Keys
from handoff.quarantine import Entry
from handoff.refused import pardon_all

_SHOWN_BYTES = 1024
_ROW_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The deployment that is meant. Its secret is not needed: nothing of a message is trusted, or run."""

    redis_url: str = setting("REDIS_URL", read_redis_url, "redis://127.0.0.1:6379/0")
    deployment: str = setting("FOREBAY_DEPLOYMENT", read_name, "forebay")


@dataclass(frozen=True, slots=True)
class Opened:
    """The quarantine that a command is about."""

    redis: Client
    keys: Keys

    @property
    def entries(self) -> list[Entry]:
        return store.entries(self.redis, self.keys)


@click.group(cls=HelpFirst)
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
@click.option("--deployment", metavar="NAME", help="The deployment; FOREBAY_DEPLOYMENT otherwise.")
@click.pass_context
def quarantine(ctx: click.Context, redis: str | None, deployment: str | None) -> None:
    """Show what workers have set aside: messages that are no tasks of ours, and media that killed their workers."""
    with plain_errors():
        where = load(Where, {"REDIS_URL": redis, "FOREBAY_DEPLOYMENT": deployment})
        require(where.redis_url)
        client = connect(where.redis_url, "quarantine")
        ctx.call_on_close(client.close)
        ctx.obj = Opened(client, Keys(f"{where.deployment}:"))


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one line what is wrong, and exit with 2."""
    with configuration_errors():
        try:
            yield
        except Failed as error:
            raise ConfigurationError(error.message) from error


@quarantine.command("list")
@click.pass_obj
def list_entries(opened: Opened) -> None:
    """Name all that is there, the newest first."""
    with plain_errors():
        found = opened.entries
    if not found:
        click.echo("nothing is in quarantine")
        return
    if not sys.stdout.isatty():  # for other programs: a line an entry, which is never cut off
        for one in found:
            click.echo("\t".join(map(_plain, _columns(one))))
        return
    table = Table("id", "when", "what", "reason", "node", "bytes", "rid", Column("detail", overflow="fold"))
    for one in found:
        table.add_row(*map(_harmless, _columns(one)))
    Console().print(table)


def _columns(one: Entry) -> tuple[str, ...]:
    size = str(one.size_bytes or "")
    return one.id, _when(one), one.kind, one.reason, one.node, size, one.rid, one.detail or one.digest


@quarantine.command()
@click.argument("entry_id", metavar="ID")
@click.pass_obj
def show(opened: Opened, entry_id: str) -> None:
    """Show all that is known of one, and the beginning of the message. It may hold what a user sent."""
    with plain_errors():
        found = [one for one in opened.entries if one.id == entry_id]
        if not found:
            raise ConfigurationError(f"ID {entry_id!r}: there is no such entry, or it has made room for later ones")
    (one,) = found
    facts = {"when": _when(one), "what": one.kind, "reason": one.reason, "detail": one.detail, "node": one.node}
    facts |= {"rid": one.rid, "digest": one.digest, "bytes": str(one.size_bytes or "")}
    for name, value in facts.items():
        if value:
            click.echo(f"{name:8}{_harmless(value)}")
    for line in _dump(one.beginning[:_SHOWN_BYTES]):
        click.echo(line)


@quarantine.command()
@click.pass_obj
def clear(opened: Opened) -> None:
    """Forget all entries, and refuse no media any more. How many entries there have been, /metrics still says."""
    with plain_errors():
        click.echo(f"{store.clear(opened.redis, opened.keys)} entries forgotten")
        pardoned = pardon_all(opened.redis, opened.keys)
    if pardoned:
        click.echo(f"{pardoned} items are decoded again")


def _when(entry: Entry) -> str:
    return datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")


def _harmless(text: str) -> Text:
    """Without a character that rich would act upon either."""
    return Text(_plain(text))


def _plain(text: str) -> str:
    """Without a character that a terminal would act upon: it is a stranger's."""
    return ascii(text)[1:-1]


def _dump(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), _ROW_BYTES):
        row = data[start : start + _ROW_BYTES]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{start:06x}  {row.hex(' '):{3 * _ROW_BYTES}} {plain}"
