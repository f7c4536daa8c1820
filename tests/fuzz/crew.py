"""Children that try one input after another. One that dies is replaced, and its input is the finding."""

from __future__ import annotations

import faulthandler
import gc
import json
import mmap
import os
import select
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.targets import TARGETS, Target
from tests.fuzz.trial import LIMITS, Trial, outcome
from tests.support.forks import fork
from workers.item_limits import ItemLimits

_TRIALS_A_CHILD = 500
_STUCK_S = 240.0
MOST_GROWN_BYTES = 256 << 20
"""By which a child's resident memory may be larger after its trials than after the first fifty of them."""
_WARM = 50
_NOW = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Finding:
    """An input of which something came that may not."""

    number: int
    trial: Trial
    what: str


@dataclass(slots=True)
class Report:
    """What came of a run. ``peak_bytes`` is the most that one trial added to its child's resident memory."""

    trials: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    peak_bytes: int = 0
    grown_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)


def explore(
    seconds: float,
    seed: int,
    targets: Mapping[str, Target] = TARGETS,
    limits: ItemLimits = LIMITS,
    most: int = sys.maxsize,
) -> Report:
    """Try inputs ``0, 1, 2, …`` of a seed, until the time is over or ``most`` have been tried."""
    report, until, number = Report(), time.monotonic() + seconds, 0
    for target in targets.values():
        target.seeds()  # once, not in every child
    while time.monotonic() < until and number < most:
        number = _Child(seed, number, min(most, number + _TRIALS_A_CHILD), until, targets, limits).watch(report)
    report.trials = number
    return report


@dataclass(slots=True)
class _Child:
    seed: int
    first: int
    end: int
    until: float
    targets: Mapping[str, Target]
    limits: ItemLimits
    _now: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, _NOW.size))

    def watch(self, report: Report) -> int:
        """Let a child try from ``first`` on; the number with which the next one goes on."""
        _NOW.pack_into(self._now, 0, self.first)
        with tempfile.TemporaryFile() as said:
            reading, writing = os.pipe()
            pid = fork()
            if not pid:
                os.close(reading)
                self._try_all(writing, said.fileno())
            os.close(writing)
            with open(reading, encoding="utf-8") as lines:
                for line in _patiently(lines, pid, self._now):
                    self._note(json.loads(line), report)
            _, status = os.waitpid(pid, 0)
        number = _NOW.unpack_from(self._now, 0)[0]
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            report.findings.append(Finding(number, Trial.of(self.seed, number, self.targets), f"died of {name}"))
            return number + 1
        assert os.WEXITSTATUS(status) == 0, "the harness itself has failed"
        return number

    def _note(self, told: dict[str, object], report: Report) -> None:
        number, what = int(told["number"]), str(told["what"])
        report.outcomes[str(told["target"]), str(told["outcome"])] += 1
        report.peak_bytes = max(report.peak_bytes, int(told["peak"]))
        report.grown_bytes = max(report.grown_bytes, int(told["grown"]))
        if what:
            report.findings.append(Finding(number, Trial.of(self.seed, number, self.targets), what))

    def _try_all(self, writing: int, said: int) -> None:
        """The child: it never returns, and leaves nothing of pytest's to run at its end."""
        code = 1
        try:
            os.dup2(said, 2)
            sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - pytest's is another
            warnings.simplefilter("always")
            faulthandler.disable()  # pytest's would tell a child's death as its own
            with open(writing, "w", buffering=1, encoding="utf-8") as lines:
                self._try_each(lines, said)
            code = 0
        finally:
            os._exit(code)

    def _try_each(self, lines: object, said: int) -> None:
        warm = heard = 0
        for number in range(self.first, self.end):
            _NOW.pack_into(self._now, 0, number)
            if time.monotonic() > self.until:
                return
            trial = Trial.of(self.seed, number, self.targets)
            before = _resident("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            came, wrong = outcome(self.targets[trial.target], trial.data, self.limits)
            peak = _resident("VmHWM") - before
            printed = os.fstat(said).st_size
            if printed > heard and not wrong:
                wrong = f"printed to the standard error: {os.pread(said, 200, heard)!r}"
            heard, grown = printed, 0
            if number == self.first + _WARM:
                gc.collect()
                warm = _resident("VmRSS")
            elif warm and number == self.end - 1:
                gc.collect()
                grown = _resident("VmRSS") - warm
                if grown > MOST_GROWN_BYTES and not wrong:
                    wrong = f"the child has grown by {grown} bytes; allowed are {MOST_GROWN_BYTES}"
            told = {"number": number, "target": trial.target, "outcome": came, "what": wrong}
            lines.write(json.dumps({**told, "peak": peak, "grown": grown}) + "\n")
        _NOW.pack_into(self._now, 0, self.end)


def _patiently(lines: object, pid: int, now: mmap.mmap) -> Iterator[str]:
    """A child's lines. One that says nothing for minutes is killed: it stands still where no limit reaches."""
    while True:
        ready, _, _ = select.select([lines.fileno()], [], [], _STUCK_S)
        if not ready:
            os.kill(pid, signal.SIGKILL)
            return
        line = lines.readline()
        if not line:
            return
        yield line


def _resident(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024
