"""The kill run, in short; ``make kill-run`` is the long one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from handoff.pool import Owner, Pool
from tests.support.kill.law import BrokenLawError, inspected
from tests.system.kill_run import prepared

pytestmark = [pytest.mark.system, pytest.mark.alone]

ROOT = Path(__file__).parents[2]


def test_whoever_is_killed_nothing_is_lost_leaked_or_mixed_up():
    """Twenty seconds of it: every request has one end, every byte an owner, and every reader its own pictures."""
    before = set(Path("/dev/shm").iterdir())
    command = [sys.executable, "-m", "tests.system.kill_run", "--seconds", "20", "--seed", "1"]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert ended.returncode == 0, ended.stderr
    totals = {name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", ended.stdout)}
    happened = ("writers killed", "readers killed", "janitors killed", "done", "hits", "evictions", "waits", "orphans")
    assert all(totals[name] > 0 for name in happened), totals
    assert not [path for path in set(Path("/dev/shm").iterdir()) - before if path.name.startswith("forebay-kill-")]


def test_the_law_sees_a_block_that_no_request_leads_to():
    """Its writer lives, so no janitor may take it away; and nobody is at work who could need it."""
    with prepared(seed=0) as run:
        life = Owner(run.site.folder, "worker")
        pool = Pool(run.site.folder / "pool", life.id, writable=True)
        block = pool.allocate(1000, "nobody's", 1)

        with inspected(run.site, run.redis) as inspection, pytest.raises(BrokenLawError, match="held by nobody"):
            inspection.check()

        pool.free(block.handle)
        with inspected(run.site, run.redis) as inspection:
            inspection.check()
            inspection.check_empty()
        life.close()
        pool.close()
