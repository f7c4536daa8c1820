"""How soon a part that dies is started again: told by a clock that the test turns."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from launch.part import Part
from launch.supervisor import Supervisor


class Clock:
    """Runs so many times faster than the real one."""

    def __init__(self, factor: float) -> None:
        self._factor = factor

    def monotonic(self) -> float:
        return time.monotonic() * self._factor

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self._factor)


def pauses(monkeypatch: pytest.MonkeyPatch, folder: Path, part: Part, deaths: int, factor: float) -> list[str]:
    """What the operator is told until a part has died so often."""
    told: list[str] = []

    def say(line: str) -> None:
        told.append(line)
        supervisor.signals = int(len(told) == deaths)

    monkeypatch.setattr("launch.supervisor.time", Clock(factor))
    supervisor = Supervisor(folder, say)
    try:
        supervisor.start([part])
        supervisor.watch()
    finally:
        supervisor.end()
    return told


def test_a_part_that_keeps_dying_is_started_ever_less_often(monkeypatch, tmp_path):
    """Half a second, then twice as long each time, up to ten seconds: a broken part must not eat the machine."""
    part = Part("part", ["false"], is_ready=lambda: True)
    monkeypatch.setattr("launch.supervisor.Supervisor._is_ready", lambda self, place: True)  # it dies at once

    told = pauses(monkeypatch, tmp_path, part, deaths=7, factor=60)

    assert told == [f"part ended with 1; starting it again in {s} s" for s in ("0.5", "1", "2", "4", "8", "10", "10")]


def test_a_part_that_had_settled_is_started_again_soon(monkeypatch, tmp_path):
    """Half a minute of work makes an earlier death forgotten."""
    part = Part("part", ["sleep", "0.06"], is_ready=lambda: True)

    told = pauses(monkeypatch, tmp_path, part, deaths=3, factor=600)  # it runs for 36 seconds

    assert told == ["part ended with 0; starting it again in 0.5 s"] * 3
