"""``forebay check-processor``: the conformance suite on a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.console import Console

from forebay.cli import configuration_errors, tell_native_crashes
from forebay.kit.found import find
from forebay.kit.verdict import show_finding, show_times, show_verdict
from forebay.testing import CALLS, CHECKS, Report, examine


@click.command("check-processor")
@click.argument("name")
@click.option(
    "--model-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="The model's Hugging Face folder, where it needs one.",
)  # fmt: skip
@click.option("--calls", type=click.IntRange(2), default=CALLS, show_default=True, help="Requests of the memory check.")
@click.option(
    "--only", multiple=True, type=click.Choice([check.name for check in CHECKS]), metavar="CHECK",
    help="This check and what it needs; may be given several times.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def check_processor(name: str, model_dir: Path | None, calls: int, only: tuple[str, ...], as_json: bool) -> None:
    """Hold the processor NAME to the contract: an installed model's name, or module:Class.

    Exit status: 0 when it is sound, 1 when it breaks a rule, 2 when there is nothing to examine.
    """
    tell_native_crashes()
    console = Console(highlight=False)
    with configuration_errors():
        found = find(name, model_dir)
    if as_json:
        report = examine(found.processor, calls=calls, only=only, tokenizer=found.tokenizer)
        click.echo(json.dumps(_as_map(name, report), indent=2))
    else:
        console.print(f"[bold]{name}[/]: {type(found.processor).__module__}.{type(found.processor).__qualname__}\n")
        report = examine(
            found.processor,
            calls=calls,
            only=only,
            tokenizer=found.tokenizer,
            told=lambda finding: show_finding(console, finding),
        )
        show_times(console, report.timings)
        show_verdict(console, report)
    sys.exit(0 if report.is_sound else 1)


def _as_map(name: str, report: Report) -> dict[str, object]:
    return {
        "processor": name,
        "is_sound": report.is_sound,
        "findings": [
            {"check": one.check, "verdict": str(one.verdict), "detail": one.detail} for one in report.findings
        ],
        "timings": [{"item": one.label, "bytes": one.size_bytes, "seconds": one.seconds} for one in report.timings],
    }
