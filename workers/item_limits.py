"""What decoding one item may take. A codec that asks for more is told so; one that does not listen ends its child."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from forebay.errors import Rejected

_PAGE = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class ItemLimits:
    """Limits of one item.

    Attributes:
        wall_s: time by the clock; 0 for no limit.
        cpu_s: time on all cores together; 0 for no limit.
        memory_bytes: address space beyond what the child has already; 0 for no limit.
    """

    wall_s: float = 30.0
    cpu_s: float = 30.0
    memory_bytes: int = 4 << 30

    @contextmanager
    def over(self, param: str) -> Iterator[None]:
        """Hold whatever is done in the block to the limits. ``param`` names the item in errors.

        Only in a process' main thread, for nobody else gets its signals; elsewhere the block runs without limits.

        Raises:
            Rejected: ``media_too_slow`` or ``media_too_costly``, with the limit.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with self._room(param), self._time(param):
            yield

    @contextmanager
    def _time(self, param: str) -> Iterator[None]:
        is_over = False

        def too_slow(number: int, _frame: FrameType | None) -> None:
            if is_over:  # another signal came between the end and the timers' end; what runs now is none of ours
                return
            limit, what = (self.wall_s, "") if number == signal.SIGALRM else (self.cpu_s, " of computing")
            raise Rejected("media_too_slow", f"{param} takes more than {limit:g} s{what} to decode", param=param)

        before = [(number, signal.signal(number, too_slow)) for number in (signal.SIGALRM, signal.SIGVTALRM)]
        # Its default action ends the process, and needs no Python to do so.
        before.append((signal.SIGPROF, signal.signal(signal.SIGPROF, signal.SIG_DFL)))
        timers = {
            signal.ITIMER_REAL: self.wall_s,
            signal.ITIMER_VIRTUAL: self.cpu_s,
            signal.ITIMER_PROF: self.cpu_s and 1.25 * self.cpu_s + 1.0,  # for those who did not come back to hear
        }
        try:
            for timer, limit_s in timers.items():
                signal.setitimer(timer, limit_s)
            yield
        finally:
            is_over = True
            for timer in timers:
                signal.setitimer(timer, 0)
            for number, handler in before:
                signal.signal(number, handler)

    @contextmanager
    def _room(self, param: str) -> Iterator[None]:
        if not self.memory_bytes:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = _address_space() + self.memory_bytes
        most = min((one for one in (limit, soft, hard) if one != resource.RLIM_INFINITY), default=limit)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        try:
            yield
        except MemoryError as error:
            message = f"{param} takes more than {self.memory_bytes} bytes of memory to decode"
            raise Rejected("media_too_costly", message, param=param, status=413) from error
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int:
    pages: Any = Path("/proc/self/statm").read_bytes().partition(b" ")[0]
    return int(pages) * _PAGE


NO_LIMITS = ItemLimits(wall_s=0, cpu_s=0, memory_bytes=0)
