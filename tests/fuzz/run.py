"""``make fuzz``: strangers' bytes by the thousand, and what came of them; what is wrong is kept as a file."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.crew import Report, explore

KEPT = Path("build/fuzz")
_SHOWN = 40


def keep(report: Report) -> None:
    """Each finding's bytes, under their digest."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for finding in report.findings:
        (KEPT / hashlib.sha256(finding.trial.data).hexdigest()[:16]).write_bytes(finding.trial.data)


def show(report: Report) -> None:
    table = Table("function", "outcome", "how often", title=f"{report.trials:,} inputs")
    for (target, came), count in sorted(report.outcomes.items()):
        table.add_row(target, came, f"{count:,}")
    console = Console()
    console.print(table)
    console.print(
        f"most memory of one input: {report.peak_bytes / 1e6:.0f} MB; of a child: {report.grown_bytes / 1e6:.0f} MB"
    )
    for one in report.findings[:_SHOWN]:
        digest = hashlib.sha256(one.trial.data).hexdigest()[:16]
        console.print(
            f"{one.number}: {one.trial.target}, {one.trial.name}: {one.what} ({KEPT / digest})",
            markup=False,
            soft_wrap=True,
        )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    report = explore(given.seconds, given.seed)
    keep(report)
    show(report)
    return 1 if report.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
