"""The lock of the pool's file. The kernel drops it when its holder dies; one that is stopped keeps it, and is named."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 20e-6, 1e-3  # a step takes some forty microseconds
_FIRST_WARNING_S = 2.0


class TableLock:
    """For one opening of the file and one thread at a time; a second opening by the same process is parted from it.

    ``flock``, and not the record locks of ``fcntl``: those belong to the whole process, so that two openings of one
    process do not exclude each other, and closing any of them drops the lock.
    """

    def __init__(self, fd: int, name: str, holder: Callable[[], int]) -> None:
        """``holder`` says which process took the lock last."""
        self.pid = os.getpid()
        self._fd = fd
        self._name = name
        self._holder = holder
        # Reentrant, because an exception from a signal handler may come between taking it and noting that it is taken.
        # Such a process goes on, and does not wait for itself; see ``settle``.
        self._threads = threading.RLock()
        _all.add(self)

    def take(self) -> None:
        """Wait until it is ours. Whoever waits for long says for whom."""
        self._threads.acquire()
        try:
            if not self._is_free():
                self._wait()
        except BaseException:
            self.give()
            raise

    def give(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._threads.release()

    def settle(self) -> None:
        """Give back what this thread holds because an exception came between taking it and giving it back."""
        self._threads.acquire()  # another thread may be in the middle of a step: the opening is the whole process'
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        with suppress(RuntimeError):  # it is no longer ours
            while True:
                self._threads.release()

    def part(self) -> None:
        """In a forked child: an opening of its own, or it would share the lock with its parent."""
        own = os.open(f"/proc/self/fd/{self._fd}", os.O_RDWR)
        os.dup2(own, self._fd, inheritable=False)
        os.close(own)
        self.pid = os.getpid()
        self._threads = threading.RLock()

    def close(self) -> None:
        """Close the opening, and forget it: its number will be another file's."""
        _all.discard(self)
        os.close(self._fd)

    def _is_free(self) -> bool:
        """Whether nobody held it; now we do."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait(self) -> None:
        began, pause_s, warn_after_s = time.monotonic(), _FIRST_PAUSE_S, _FIRST_WARNING_S
        while True:
            time.sleep(pause_s)
            if self._is_free():
                return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            if time.monotonic() - began > warn_after_s:
                self._complain(warn_after_s)
                warn_after_s *= 2

    def _complain(self, waited_s: float) -> None:
        holder = self._holder()
        extra = {"pool": self._name, "waited_s": waited_s, "holder_pid": holder, "holder_state": _state(holder)}
        log.warning("the pool is locked by somebody who does not go on", extra=extra)


def _state(pid: int) -> str:
    """What the kernel says of a process, in a word of its own: ``T (stopped)``, ``D (disk sleep)`` and so on."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "not seen from here"
    return status.partition("State:")[2].partition("\n")[0].strip()


_all: weakref.WeakSet[TableLock] = weakref.WeakSet()


def _part_all() -> None:
    for lock in list(_all):
        lock.part()


os.register_at_fork(after_in_child=_part_all)
