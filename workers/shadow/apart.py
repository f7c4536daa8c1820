"""A piece of work in a process of its own: whoever does not come back from it is told, and harms nobody."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, TypeVar

T = TypeVar("T")

_LOOK_S = 0.1


class LostError(Exception):
    """The process has not come back; the text says how it ended."""


class StoppedError(Exception):
    """Somebody wants it no more."""


class Apart(Generic[T]):
    """Runs ``work`` in a fork, so that the work may be anything; its result must be picklable."""

    def __init__(self, work: Callable[[], T]) -> None:
        context = multiprocessing.get_context("fork")
        self._reader, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(work, writer))
        self._process.start()
        writer.close()

    def result(self, within_s: float, is_stopped: Callable[[], bool]) -> T:
        """What it has come to.

        Raises:
            LostError: it takes longer, or ends without a word.
            StoppedError: ``is_stopped`` says so.
        """
        give_up_at = time.monotonic() + within_s
        try:
            while not self._reader.poll(_LOOK_S):
                if is_stopped():
                    raise StoppedError
                if time.monotonic() > give_up_at:
                    raise LostError(f"it takes longer than {within_s:g} s")
            found: T = self._reader.recv()
        except EOFError:
            self._process.join()
            raise LostError(f"its process ends with {_how(self._process.exitcode or 0)}") from None
        finally:
            self._process.kill()
            self._process.join()
            self._reader.close()
        return found


def _run(work: Callable[[], T], writer: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear
    writer.send(work())


def _how(status: int) -> str:
    return f"status {status}" if status >= 0 else signal.Signals(-status).name
