"""Children at work for nobody: their request was cancelled, has expired, or is another's by now.

The parent looks once a round. It asks the child first, by a signal whose handler raises between two steps of Python; a
child that has not returned to Python two rounds later is killed, within a second of the end of its request. The message
is then refused by the record.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from forebay.states import ENDS
from forebay.task import BadTaskError, Task
from handoff.connection import Client, redis_failures
from handoff.keys import Keys

log = logging.getLogger(__name__)

SIGNAL = signal.SIGUSR2
ROUND_S = 0.3
_ROUNDS_TO_HEAR = 2
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
    _asked: dict[Running, int] = field(default_factory=dict)
    """How many rounds ago."""

    def look(self, active: Iterable[Any]) -> None:
        """Stop what is unwanted among Celery's active requests. Those that were not there last time are too young."""
        running = {(one.id, one.worker_pid): one for one in active if one.worker_pid}
        old = {key: one for key, one in running.items() if key in self._seen}
        self._seen = set(running)
        self._asked = {key: rounds + 1 for key, rounds in self._asked.items() if key in running}
        for key in self._unwanted(old):
            self._stop(key)

    def _unwanted(self, running: Mapping[Running, Any]) -> list[Running]:
        """Asked of Redis in one go: there may be a hundred children."""
        tasks = {key: task for key, one in running.items() if (task := self._task_of(one)) is not None}
        if not tasks:
            return []
        pipeline = self.redis.pipeline(transaction=False)
        for task in tasks.values():
            pipeline.hmget(self.keys.record(task.rid), "state", "token", "owner")
        with redis_failures():
            records: Any = pipeline.execute()
        return [
            key for (key, task), found in zip(tasks.items(), records, strict=True) if _is_unwanted(key, task, found)
        ]

    def _task_of(self, request: Any) -> Task | None:
        try:
            return Task.unpack(request._payload[0][0], self.secret)
        except BadTaskError:  # the child sets it aside
            return None

    def _stop(self, key: Running) -> None:
        rounds = self._asked.setdefault(key, 0)
        if 0 < rounds < _ROUNDS_TO_HEAR:
            return
        number = signal.SIGKILL if rounds else SIGNAL
        _, pid = key
        log.info("task stopped: nobody wants it", extra={"pid": pid, "signal": number.name})
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _is_unwanted(key: Running, task: Task, found: Sequence[bytes | None]) -> bool:
    state, token, owner = ((value or b"").decode() for value in found)
    if token != task.token or state in ENDS:
        return True
    _, pid = key
    return state == "processing" and not owner.startswith(f"worker-{pid}-")
