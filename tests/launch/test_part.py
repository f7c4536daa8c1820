"""One supervised process: how it says that it is ready, how it is stopped, and that nothing it started is left."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launch.part import _PR_SET_CHILD_SUBREAPER, Part, Process, adopt_orphans
from launch.proof import descendants

SAY = """
import os, signal, socket, sys, time
def say(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])
"""


def python(program: str, **more: object) -> Part:
    """A part in as little Python as there is."""
    return Part("part", [sys.executable, "-I", "-S", "-c", SAY + program], **more)  # type: ignore[arg-type]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Part], Process]]:
    """Starts parts, and ends them with the test."""
    started: list[Process] = []

    def start(part: Part) -> Process:
        started.append(Process(part, tmp_path))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.fixture
def foster_parent() -> Iterator[None]:
    """This process is the launcher: orphans of its parts become its children. Only for this test."""
    adopt_orphans()
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0)


def until(holds: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.003)


def looked(process: Process) -> Process:
    process.look()
    return process


def test_a_part_is_ready_when_it_says_so(start):
    """Not before, and for good; the last status is kept beside it."""
    process = start(python('say("STATUS=loading"); say("READY=1\\nSTATUS=up"); say("STATUS=busy"); time.sleep(60)'))
    assert (process.is_ready, process.status) == (False, "")

    until(lambda: looked(process).status == "busy")

    assert process.is_ready
    assert process.exit_code is None


@pytest.mark.parametrize("said", ["READY=0", "ready=1", "READY", "READY=11", "STATUS=READY=1", "", "\\xff"])
def test_nothing_else_makes_a_part_ready(start, said):
    """Only that one line."""
    process = start(python(f'say("{said}"); say("STATUS=told"); time.sleep(60)'))

    until(lambda: looked(process).status == "told")

    assert not process.is_ready


def test_a_part_that_cannot_say_so_is_asked(start):
    """Redis and Flower know nothing of notifications; once ready it is not asked again."""
    answers = [False, False, True]
    process = start(Part("redis", ["sleep", "60"], is_ready=lambda: answers.pop(0)))

    states = [looked(process).is_ready for _ in range(5)]

    assert states == [False, False, True, True, True]
    assert answers == []


def test_a_part_can_be_asked_to_stop_in_its_own_way(start):
    """And asking one that has ended is harmless."""
    process = start(
        python(
            'signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); say("READY=1"); time.sleep(60)',
            stop_signal=signal.SIGINT,
        )
    )
    until(lambda: looked(process).is_ready)

    process.ask_to_stop()
    until(lambda: process.exit_code is not None)
    process.ask_to_stop()

    assert process.exit_code == 7


def alive(pid: int) -> bool:
    """Whether anything of it is left, a zombie included."""
    return os.path.exists(f"/proc/{pid}")


FAMILY = """
if os.fork() == 0:
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)
say("READY=1")
"""


def test_what_a_part_started_ends_with_it_and_is_waited_for(start, foster_parent):
    """Children and grandchildren, whatever they do about signals; no zombie of them stays."""
    process = start(python(FAMILY + "time.sleep(60)"))
    until(lambda: looked(process).is_ready and len(descendants(process.pid)) == 2)
    family = {process.pid, *descendants(process.pid)}

    process.end()
    process.end()

    assert [pid for pid in family if alive(pid)] == []


def test_what_a_dead_part_left_behind_is_ended_too(start, foster_parent):
    """It died first; its orphans are ours, and its successor must not meet them."""
    process = start(python(FAMILY + "sys.exit(1)"))

    def orphans() -> list[int]:
        return [pid for pid in descendants(os.getpid()) if os.getpgid(pid) == process.pid]

    until(lambda: process.exit_code == 1 and len(orphans()) == 2)
    left = orphans()

    process.end()

    assert [pid for pid in left if alive(pid)] == []


def test_a_part_leaves_no_socket(start, tmp_path):
    """And the one of a run before it under the same name is no obstacle."""
    (tmp_path / "scheduler-toy.notify").touch()
    process = start(Part("scheduler:toy", ["sleep", "60"]))
    assert [path.name for path in tmp_path.iterdir()] == ["scheduler-toy.notify"]

    process.end()

    assert list(tmp_path.iterdir()) == []


def test_a_part_does_not_hear_the_terminal(start):
    """Ctrl-C goes to the launcher's group; the launcher stops its parts in order."""
    process = start(Part("part", ["sleep", "60"]))

    assert os.getsid(process.pid) == process.pid != os.getsid(0)
