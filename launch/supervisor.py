"""Watching the parts of a run: start in order, restart what dies, drain in order, end everything.

start → ready → run → drain → stopped. The first signal drains, the second ends.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from forebay.errors import ForebayError
from launch.part import Part, Process

_LOOK_EVERY_S = 0.05
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0
_SETTLED_AFTER_S = 30.0  # a part that ran this long starts its back-off anew


class PartFailedError(ForebayError):
    """A part could not be started."""


class EndedError(ForebayError):
    """The operator does not want to wait for the drain."""


@dataclass(slots=True)
class _Place:
    """A part's place in the run, over all of its restarts."""

    part: Part
    process: Process | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    pause_s: float = _FIRST_PAUSE_S


@dataclass(slots=True)
class Supervisor:
    """Runs parts until told to stop.

    Args:
        folder: for notification sockets.
        say: prints one line for the operator.
        ready_within_s: how long a part may take to become ready at the start.
        drain_within_s: how long each part may take to drain.
    """

    folder: Path
    say: Callable[[str], None]
    ready_within_s: float = 180.0
    drain_within_s: float = 45.0
    signals: int = 0
    shared_folders: Sequence[Path] = ()
    """Other folders of the run, for those who check that nothing is left of it."""
    _places: list[_Place] = field(default_factory=list)

    @property
    def pids(self) -> dict[str, int]:
        """The process of each part that runs now."""
        return {place.part.name: place.process.pid for place in self._places if place.process is not None}

    def start(self, parts: Sequence[Part]) -> None:
        """Start parts together and wait until all are ready.

        Raises:
            PartFailedError: naming the one that ended or took too long, with what it said.
            EndedError: a signal came first.
        """
        places = [_Place(part) for part in parts]
        for place in places:
            self._places.append(place)
            self._launch(place)
        give_up_at = time.monotonic() + self.ready_within_s
        while waiting := [place for place in places if not self._is_ready(place)]:
            self._check_signals(1)
            if time.monotonic() > give_up_at:
                names = ", ".join(place.part.name for place in waiting)
                raise PartFailedError(f"not ready after {self.ready_within_s:.0f} s: {names}")
            time.sleep(_LOOK_EVERY_S)

    def _is_ready(self, place: _Place) -> bool:
        process = place.process
        assert process is not None
        code = process.exit_code  # asked before the look, which then hears the last words of one that has ended
        process.look()
        if code is not None:
            reason = f": {process.status}" if process.status else ""
            raise PartFailedError(f"{place.part.name} ended with {code} while starting{reason}")
        return process.is_ready

    def watch(self) -> None:
        """Restart what dies, until the first signal."""
        while not self.signals:
            for place in self._places:
                self._tend(place)
            time.sleep(_LOOK_EVERY_S)

    def _tend(self, place: _Place) -> None:
        if place.process is None:
            if time.monotonic() >= place.start_at:
                self._launch(place)
            return
        place.process.look()
        code = place.process.exit_code
        if code is None:
            return
        place.process.end()  # what it started must not outlive it
        place.process = None
        if time.monotonic() - place.started_at > _SETTLED_AFTER_S:
            place.pause_s = _FIRST_PAUSE_S
        self.say(f"{place.part.name} ended with {code}; starting it again in {place.pause_s:g} s")
        place.start_at = time.monotonic() + place.pause_s
        place.pause_s = min(2 * place.pause_s, _LONGEST_PAUSE_S)

    def _launch(self, place: _Place) -> None:
        place.process = Process(place.part, self.folder)
        place.started_at = time.monotonic()

    def drain(self, under_way: Callable[[], int] = lambda: 0) -> int:
        """Stop the parts in order, each after it has drained; the last started is the first to stop.

        Once the first has stopped, nothing new comes in; the others go on until nothing accepted is under way.

        Returns:
            How many requests were still under way when patience ended.

        Raises:
            EndedError: a second signal came.
        """
        places = self._places[::-1]
        for place in places[:1]:
            self._drain(place)
        left = self._finish_work(places[1:], under_way)
        for place in places[1:]:
            self._drain(place)
        return left

    def _finish_work(self, places: Sequence[_Place], under_way: Callable[[], int]) -> int:
        give_up_at = time.monotonic() + self.drain_within_s
        told = False
        while (left := under_way()) and time.monotonic() < give_up_at:
            if not told:
                self.say(f"{left} accepted requests are still under way")
                told = True
            self._check_signals(2)
            for place in places:
                self._tend(place)
            time.sleep(_LOOK_EVERY_S)
        return left

    def _drain(self, place: _Place) -> None:
        name, process = place.part.name, place.process
        if process is None:
            return
        process.ask_to_stop()
        give_up_at = time.monotonic() + self.drain_within_s
        while process.exit_code is None:
            self._check_signals(2)
            if time.monotonic() > give_up_at:
                self.say(f"{name} did not drain within {self.drain_within_s:.0f} s; ending it")
                break
            time.sleep(_LOOK_EVERY_S)
        process.end()

    def end(self) -> None:
        """End every part now. Safe to call twice."""
        for place in reversed(self._places):
            if place.process is not None:
                place.process.end()
                place.process = None

    def _check_signals(self, most: int) -> None:
        if self.signals >= most:
            raise EndedError("ended by a signal")

    @contextmanager
    def catching_signals(self) -> Iterator[None]:
        """Count SIGINT, SIGTERM and SIGHUP (a closed terminal) instead of dying from them."""

        def count(_number: int, _frame: FrameType | None) -> None:
            self.signals += 1

        before = {number: signal.signal(number, count) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
