"""How a worker ends: the first signal drains it, and a second one or the end of the grace time ends it as it stands."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from types import FrameType

from billiard.process import active_children
from celery.worker import state as celery_state

log = logging.getLogger(__name__)

_AT_ONCE_S = 0.001  # a timer of 0 is none
EX_OK = 0
EXIT_FAILURE = 1


class Ending:
    """Signals of a worker's parent. Celery waits for its children in the main thread, where these handlers run."""

    def __init__(self, grace_s: int) -> None:
        self._grace_s = grace_s

    def on_ready(self, **_: object) -> None:
        """From now on; before that, a worker has nothing to drain."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGALRM, self._on_alarm)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if celery_state.should_stop is not None and celery_state.should_stop is not False:
            self._end("it was told twice")
        log.info("draining", extra={"signal": signal.Signals(number).name, "grace_s": self._grace_s})
        celery_state.should_stop = EX_OK
        signal.setitimer(signal.ITIMER_REAL, max(self._grace_s, _AT_ONCE_S))

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        self._end(f"draining took longer than {self._grace_s} s")

    def _end(self, reason: str) -> None:
        """Kill the children and be gone. What they were at goes on elsewhere, as after any other death."""
        children = active_children()
        log.warning("ending with work in hand", extra={"reason": reason, "children": len(children)})
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        os._exit(EXIT_FAILURE)
