"""What the parent does when a child ends over a task: it knows how, which the child cannot tell any more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from billiard.exceptions import WorkerLostError
from celery.worker import request

from forebay.errors import ForebayError, Problem
from forebay.states import State
from forebay.task import Task
from handoff import record
from handoff.connection import Client, connect
from handoff.keys import Keys
from handoff.moves import Fence, Moves
from handoff.pool.owners import marks_of
from handoff.quarantine import Entry, set_aside
from handoff.refused import MOST_KILLS, note_kill
from handoff.scripts import perform
from workers.abandon import Abandoner
from workers.settings import WorkerSettings

log = logging.getLogger(__name__)

_Request: Any = request.Request  # Celery has no types
_BY_OTHERS = ("(SIGKILL)", "(SIGTERM)", "(SIGINT)")  # an operator, or the kernel for want of memory: nobody's fault


class WatchedRequest(_Request):  # type: ignore[misc]
    """Celery's view of a task in its parent, which is told how its child ended."""

    casualties: ClassVar[Casualties]

    def on_timeout(self, soft: bool, timeout: float) -> None:
        if not soft:
            self.casualties.after_hard_limit(self._payload[0][0], self.worker_pid)
        super().on_timeout(soft, timeout)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        error = exc_info.exception
        error = getattr(error, "exc", error)  # billiard wraps it, to carry the traceback
        if isinstance(error, WorkerLostError):
            log.error("child ended over a task", extra={"task": self.id, "pid": self.worker_pid, "how": str(error)})
            self.casualties.after_death(self.worker_pid, str(error))
        return super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)


@dataclass(frozen=True, slots=True)
class Casualties:
    """Ends requests that the hard limit has ended, and counts the deaths of children by what they were decoding.

    Redis is told in a thread: it may be slow, and every other task waits for the parent. If it cannot be told, the
    janitor finds the child dead, and the request has another attempt.
    """

    settings: WorkerSettings

    def after_hard_limit(self, message: bytes, pid: int) -> None:
        """The child with that number does not return to Python, and is about to be killed."""
        marks = self._marks(pid)
        self._in_a_thread(lambda client: self._end(client, message, pid), *self._counting(marks))

    def after_death(self, pid: int, how: str) -> None:
        """The child with that number has ended by itself, or by a signal."""
        if not any(name in how for name in _BY_OTHERS):
            self._in_a_thread(*self._counting(self._marks(pid)))

    def _marks(self, pid: int) -> dict[str, str]:
        """What the child was decoding; read at once, for the janitor takes its lock file away."""
        return marks_of(self.settings.folder, f"worker-{pid}-")

    def _counting(self, marks: Mapping[str, str]) -> list[Callable[[Client], None]]:
        return [partial(self._count, digest=digest, life=life) for life, digest in marks.items()]

    def _in_a_thread(self, *steps: Callable[[Client], None]) -> None:
        if steps:
            threading.Thread(target=self._tell_redis, args=steps, name="casualties").start()

    def _tell_redis(self, *steps: Callable[[Client], None]) -> None:
        client = connect(self.settings.redis_url, f"casualties-{self.settings.node}")
        try:
            for step in steps:
                step(client)
        except ForebayError as error:
            log.warning("the end of a child is left to the janitor", extra={"reason": str(error)})
        finally:
            client.close()

    def _end(self, client: Client, message: bytes, pid: int) -> None:
        """End the request of a message, if that child is the one that has it."""
        task = Task.unpack(message, self.settings.secret)
        moves = Moves(Keys(self.settings.prefix))
        found = record.read(client, moves.keys, task.rid)
        if found is None or found.token != task.token or found.state is not State.PROCESSING:
            return
        if found.owner.startswith(f"worker-{pid}-"):
            abandoner = Abandoner(client, moves, self.settings.node, self.settings.secret)
            moved = abandoner.end(task.rid, Fence.seen(found.seen), self._problem)
            log.error(
                "request failed at the hard limit", extra={"rid": task.rid, "model": task.model, "written": moved.ok}
            )

    @property
    def _problem(self) -> Problem:
        limit_s = self.settings.limits.hard_s
        return Problem("time_limit", f"preprocessing took longer than {limit_s:g} s and was killed", 504)

    def _count(self, client: Client, *, digest: str, life: str) -> None:
        keys = Keys(self.settings.prefix)
        log.error("child ended while it decoded an item", extra={"digest": digest})
        if note_kill(client, keys, digest, life):
            detail = f"{MOST_KILLS} children have ended while they decoded it; it is refused"
            perform(
                client, set_aside(keys, Entry.of_media(digest, "media_quarantined", detail, self.settings.node, ""))
            )
