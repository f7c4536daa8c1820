"""The end of a request whose child has to be killed, because it does not return to Python in time.

The parent writes it: the child cannot, and another attempt would only cost the next child as much time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from celery.worker import request

from forebay.errors import ForebayError, Problem
from forebay.states import State
from forebay.task import Task
from handoff import record
from handoff.connection import connect
from handoff.keys import Keys
from handoff.moves import Fence, Moves
from workers.abandon import Abandoner
from workers.settings import WorkerSettings

log = logging.getLogger(__name__)

_Request: Any = request.Request  # Celery has no types


class TimedRequest(_Request):  # type: ignore[misc]
    """Celery's view of a task in its parent, which is told when the hard limit passes."""

    on_hard_limit: ClassVar[Callable[[bytes, int], None]]

    def on_timeout(self, soft: bool, timeout: float) -> None:
        if not soft:
            # In a thread: Redis may be slow, and every other task waits for this one.
            told = (self._payload[0][0], self.worker_pid)
            threading.Thread(target=type(self).on_hard_limit, args=told, name="hard-limit").start()
        super().on_timeout(soft, timeout)


@dataclass(frozen=True, slots=True)
class HardLimit:
    """Ends requests, and names their media as what no child returned from."""

    settings: WorkerSettings

    def end(self, message: bytes, pid: int) -> None:
        """End the request of a message, if the child with that number is the one that has it.

        If Redis cannot be told, the janitor finds the child dead, and the request has another attempt.
        """
        client = connect(self.settings.redis_url, f"limit-{self.settings.node}")
        try:
            task = Task.unpack(message, self.settings.secret)
            moves = Moves(Keys(self.settings.prefix))
            found = record.read(client, moves.keys, task.rid)
            if found is None or found.token != task.token or found.state is not State.PROCESSING:
                return
            if found.owner.startswith(f"worker-{pid}-"):
                abandoner = Abandoner(client, moves, self.settings.node, self.settings.secret)
                moved = abandoner.end(task.rid, Fence.seen(found.seen), self._problem)
                log.error("request failed at the hard limit", extra={"rid": task.rid, "written": moved.ok})
        except ForebayError as error:
            log.warning("a request at the hard limit is left to the janitor", extra={"reason": str(error)})
        finally:
            client.close()

    @property
    def _problem(self) -> Problem:
        limit_s = self.settings.limits.hard_s
        return Problem("time_limit", f"preprocessing took longer than {limit_s:g} s and was killed", 504)
