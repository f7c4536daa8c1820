"""``make chaos``: a whole deployment under load and under a nemesis; afterwards every request's history is judged."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos.gallery import hang
from tests.chaos.law import GRACE_MS, Judge, Verdict
from tests.chaos.load import TIMEOUT_S, Load
from tests.chaos.nemesis import Nemesis
from tests.chaos.site import staged

_A_SITTING_S = 240.0
_SETTLED_S = 2 * TIMEOUT_S + GRACE_MS / 1000


def storm(seconds: float, seed: int) -> tuple[Counter[str], Verdict]:
    """What was struck, and what came of it."""
    with tempfile.TemporaryDirectory(prefix="forebay-chaos-") as folder, staged(Path(folder)) as site:
        pictures = hang(site.url)
        nemesis, law = Nemesis(site, random.Random(seed)), Judge(site, pictures)
        with Load(site.url, pictures, seed) as load:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0:
                nemesis.rage(min(left, _A_SITTING_S))
                law.sit(list(load.history), asked_before=time.monotonic() - _SETTLED_S)
                print(f"{law.verdict.requests} judged: {law.verdict.found()}", file=sys.stderr, flush=True)
        return nemesis.done, law.conclude(load.history)


def show(done: Mapping[str, int], verdict: Verdict) -> None:
    """The table."""
    table = Table("what", "how often", title="Chaos")
    for title, counted in (("strike", done), ("told", verdict.told), ("end", verdict.ends)):
        for name, count in sorted(counted.items()):
            table.add_row(f"{title}: {name}", f"{count:,}")
        table.add_section()
    table.add_row("requests", f"{verdict.requests:,}")
    for name, found in verdict.faults.items():
        table.add_row(name, f"{len(found):,}")
    console = Console()
    console.print(table)
    for name, found in verdict.faults.items():
        for line in found[:20]:
            console.print(f"{name}: {line}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    done, verdict = storm(given.seconds, given.seed)
    show(done, verdict)
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
