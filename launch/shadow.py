"""``forebay shadow``: try a second processor on a share of a model's requests."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from forebay import logs
from forebay.cli import configuration_errors
from forebay.errors import ForebayError
from forebay.settings import load, read_name, read_redis_url, setting
from handoff import shadow as store
from handoff.connection import connect, require
from handoff.keys import Keys
from handoff.shadow import Findings
from workers.shadow.settings import ShadowSettings

_NOTES_SHOWN = 10
_NOTHING_COMPARED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The deployment that is meant."""

    redis_url: str = setting("REDIS_URL", read_redis_url, "redis://127.0.0.1:6379/0")
    deployment: str = setting("FOREBAY_DEPLOYMENT", read_name, "forebay")


@click.group()
def shadow() -> None:
    """Prepare a share of a model's requests a second time, with another processor, and see what differs."""


@shadow.command()
@click.option("--model", "models", multiple=True, metavar="NAME[=DIR]", help="The model whose requests are sampled.")
@click.option(
    "--processor", "processors", multiple=True, metavar="PROCESSOR",
    help="The processor on trial, where it is not the installed one of that name: another's name, or module:Class.",
)  # fmt: skip
@click.option("--feature-dtype", "dtypes", multiple=True, metavar="DTYPE", help="float32 (default), bfloat16, uint8.")
@click.option("--share", metavar="SHARE", help="Of the requests, above 0 and at most 1; 0.01 by default.")
@click.option("--tolerance", metavar="ERROR", help="An absolute error up to which values are equal; none by default.")
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
def run(
    models: tuple[str, ...],
    processors: tuple[str, ...],
    dtypes: tuple[str, ...],
    share: str | None,
    tolerance: str | None,
    redis: str | None,
) -> None:
    """Run until stopped. Workers need not be told, nor started anew."""
    from workers.shadow.running import run_shadow  # imports codecs, which the help text does not need

    overrides = {
        "FOREBAY_MODELS": ",".join(models) or None,
        "FOREBAY_PROCESSOR": ",".join(processors) or None,
        "FOREBAY_FEATURE_DTYPE": ",".join(dtypes) or None,
        "FOREBAY_SHADOW_SHARE": share,
        "FOREBAY_SHADOW_TOLERANCE": tolerance,
        "REDIS_URL": redis,
    }
    with configuration_errors():
        settings = load(ShadowSettings, overrides)
        logs.set_up("shadow", settings.log_level)
        sys.exit(run_shadow(settings))


@shadow.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--forget", is_flag=True, help="Begin anew afterwards.")
@click.option("--redis", metavar="URL", help="Redis; REDIS_URL otherwise.")
def show(model: str, as_json: bool, forget: bool, redis: str | None) -> None:
    """What has been found of MODEL. Exit status: 0 when all that was compared is equal, 1 when something
    differs, 3 when nothing was compared.
    """
    with configuration_errors():
        where = load(Where, {"REDIS_URL": redis})
        require(where.redis_url)
    client, keys = connect(where.redis_url, "shadow-show"), Keys(f"{where.deployment}:")
    try:
        found = store.findings(client, keys, model)
        if forget:
            store.forget(client, keys, model)
    except ForebayError as error:
        raise click.ClickException(str(error)) from error
    finally:
        client.close()
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _show(model, found)
    if not found.counts.get("compared"):
        sys.exit(_NOTHING_COMPARED)
    sys.exit(1 if found.counts.get("different") else 0)


def _show(model: str, found: Findings) -> None:
    console = Console(highlight=False, markup=False)  # what is told is a stranger's
    running = "its shadow is running" if found.is_running else "no shadow of it is running"
    if not found.counts:
        console.print(f"nothing was compared of {model}; {running}")
        return
    table = Table("what", "how often", title=Text(f"Prepared twice: {model}"))
    for name, count in sorted(found.counts.items()):
        table.add_row(name, f"{count:,}")
    table.add_row("largest absolute error", f"{found.max_abs_error:g}")
    console.print(table)
    console.print(f"of the processor {found.fingerprint}; {running}")
    for note in found.notes[:_NOTES_SHOWN]:
        before, after = note.cpu_ms
        first = f"{before:g} ms" if before else "found, not made,"
        console.print(f"{note.rid}  (CPU: {first} at first, {after:g} ms again, in a fresh process)", soft_wrap=True)
        for line in note.said:
            console.print(f"  {line}", soft_wrap=True)
