"""Children at work for nobody: their request was cancelled, has expired, or is another's by now.

The parent looks once a round. It asks the child first, by a signal whose handler raises between two steps of Python; a
child that does not return to Python by the next round is killed. The message is then refused by the record.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from forebay.states import ENDS
from forebay.task import BadTaskError, Task
from handoff.connection import Client, redis_failures
from handoff.keys import Keys

log = logging.getLogger(__name__)

SIGNAL = signal.SIGUSR2
Running = tuple[str, int]
"""A task's id, and its child."""


class UnwantedError(BaseException):
    """Raised in a child in the middle of whatever it does, for nobody wants the result.

    No ``Exception``: neither a codec's wrapper nor a guest may take it for a fault of the media.
    """


@dataclass(slots=True)
class Watch:
    """What the parent knows of its children's tasks from one round to the next."""

    redis: Client
    keys: Keys
    secret: bytes
    _seen: set[Running] = field(default_factory=set)
    _asked: set[Running] = field(default_factory=set)

    def look(self, active: Iterable[Any]) -> None:
        """Stop what is unwanted among Celery's active requests. Those that were not there last time are too young."""
        running = {(one.id, one.worker_pid): one for one in active if one.worker_pid}
        old = {key: one for key, one in running.items() if key in self._seen}
        self._seen = set(running)
        self._asked &= running.keys()
        for key, one in old.items():
            if self._is_unwanted(one):
                self._stop(key)

    def _is_unwanted(self, request: Any) -> bool:
        try:
            task = Task.unpack(request._payload[0][0], self.secret)
        except BadTaskError:  # the child sets it aside
            return False
        with redis_failures():
            found: Any = self.redis.hmget(self.keys.record(task.rid), "state", "token", "owner")
        state, token, owner = ((value or b"").decode() for value in found)
        if token != task.token or state in ENDS:
            return True
        return state == "processing" and not owner.startswith(f"worker-{request.worker_pid}-")

    def _stop(self, key: Running) -> None:
        number = signal.SIGKILL if key in self._asked else SIGNAL
        self._asked.add(key)
        _, pid = key
        log.info("task stopped: nobody wants it", extra={"pid": pid, "signal": number.name})
        with suppress(ProcessLookupError):
            os.kill(pid, number)
