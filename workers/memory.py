"""How much memory a child has of its own: what it would give back by ending."""

from __future__ import annotations

import re
from pathlib import Path

_OWN = re.compile(r"^RssAnon:\s+(\d+) kB$", re.MULTILINE)


def own_kib() -> int:
    """Resident memory without files and shared memory, in KiB.

    Celery's own measure is the peak of everything resident. The feature pool, which every child maps and touches, would
    have each replaced after a few tasks.
    """
    found = _OWN.search(Path("/proc/self/status").read_text())
    return int(found[1]) if found else 0


def measure_children_so() -> None:
    """Have billiard, which replaces children that have grown too large, measure them by this. Call it in the child."""
    from billiard import pool

    pool.mem_rss = own_kib
