"""A conformance report on a terminal: a line for each check, a bar for each item's time, what to mend, the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from forebay.testing import CHECKS, Finding, Report, Timing, Verdict

_MARKS = {Verdict.PASSED: ("✓", "green"), Verdict.FAILED: ("✗", "bold red"), Verdict.NOT_RUN: ("-", "dim")}
_BAR_WIDTH = 30
_NAME_WIDTH = max(len(check.name) for check in CHECKS)


def show_finding(console: Console, finding: Finding) -> None:
    """One line, as soon as it is known."""
    mark, style = _MARKS[finding.verdict]
    detail = f"not run: {finding.detail}" if finding.verdict is Verdict.NOT_RUN else finding.detail
    line = Text.assemble((f"{mark} ", style), (finding.check.ljust(_NAME_WIDTH), style), "  ", detail)
    console.print(line, soft_wrap=True)


def show_times(console: Console, timings: Sequence[Timing]) -> None:
    """A bar for each item, as long as its time; the scale is of factors, because sizes are."""
    if not timings:
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    table.add_column(justify="right", style="dim")
    slowest, fastest = max(one.seconds for one in timings), min(one.seconds for one in timings)
    for one in timings:
        rate = one.size_bytes / one.seconds / 1e6
        bar = Text("█" * _bar(one.seconds, fastest, slowest), style="cyan")
        table.add_row(one.label, f"{one.seconds * 1e3:.2f} ms", bar, f"{rate:.0f} MB/s")
    console.print("\n[bold]Time an item[/] (best of three; in and out)")
    console.print(table)


def _bar(seconds: float, fastest: float, slowest: float) -> int:
    """Length of a bar, between 1 and the width: equal steps are equal factors."""
    if slowest <= fastest:
        return _BAR_WIDTH
    share = math.log(max(seconds, fastest) / fastest) / math.log(slowest / fastest)
    return 1 + round(share * (_BAR_WIDTH - 1))


def show_verdict(console: Console, report: Report) -> None:
    """What is to be mended, and the sentence that everything comes to."""
    mends = {check.name: check for check in CHECKS}
    for finding in report.failed:
        check = mends[finding.check]
        console.print()
        console.print(Text.assemble(("✗ ", "bold red"), (check.name, "bold red"), f": {check.asks}"), soft_wrap=True)
        console.print(Text.assemble("  found: ", finding.detail), soft_wrap=True)
        console.print(Text.assemble("  mend:  ", check.mend), soft_wrap=True)
    counts = {verdict: sum(one.verdict is verdict for one in report.findings) for verdict in Verdict}
    told = f"{counts[Verdict.PASSED]} passed, {counts[Verdict.FAILED]} failed, {counts[Verdict.NOT_RUN]} not run"
    verdict = ("is sound", "bold green") if report.is_sound else ("breaks the contract", "bold red")
    console.print()
    console.print(Text.assemble((report.processor, "bold"), " ", verdict, f" ({told})"), soft_wrap=True)
