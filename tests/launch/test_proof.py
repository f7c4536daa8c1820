"""What a run leaves is looked for in ``/proc`` and on its file systems."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.proof import Traces, descendants
from launch.supervisor import Supervisor

# Its name has what would confuse a reader of /proc/<pid>/stat, and so has its child's.
PARENT = """
import os, sys, time
open("/proc/self/comm", "w").write("a) b (c")
if os.fork() == 0:
    open("/proc/self/comm", "w").write(") R 1 1")
    print(os.getpid(), flush=True)
    time.sleep(60)
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A child of ours and its own child."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield parent.pid, child
        os.kill(child, 9)
        parent.kill()


def test_descendants_are_found_to_the_last(family):
    """Whatever they call themselves; a process is not its own descendant."""
    parent, child = family

    assert descendants(parent) == {child}
    assert descendants(child) == set()
    assert {parent, child} <= descendants(os.getpid())


def test_a_pid_that_is_nobodys_has_no_descendants():
    """No error either."""
    assert descendants(2**22 + 1) == set()


def test_what_a_run_left_is_named(family, tmp_path: Path):
    """Processes that still run, folders that are still there."""
    shm, disk = tmp_path / "shm", tmp_path / "disk"
    shm.mkdir()
    disk.mkdir()
    traces = Traces()
    traces.take(Supervisor(disk, print, shared_folders=[shm]))
    assert {*family} <= traces.pids
    traces.pids = {*family, 2**22 + 1}
    disk.rmdir()

    left = traces.left()

    assert left == {"processes": sorted(map(str, family)), "files on tmpfs and disk": [str(shm)]}


def test_what_left_nothing_leaves_empty_lists():
    """All of them: that is the proof."""
    assert Traces(pids={2**22 + 1}, folders={Path("/nowhere/at/all")}).left() == {
        "processes": [],
        "files on tmpfs and disk": [],
    }
