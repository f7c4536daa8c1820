"""One attempt at one request, as those see it who work on it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from forebay.task import Task, TaskBody
from workers.reservation import Reservation
from workers.timings import Timings


def work_name(rid: str, token: str) -> str:
    """How a worker tells its siblings and the janitor which request it is at: one acceptance, whatever its attempt."""
    return hashlib.sha1(f"{rid}\n{token}".encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at one request, from its claim to its end."""

    task: Task
    attempt: int
    body: TaskBody
    reservation: Reservation
    timings: Timings
    give_up_at: float
    """``time.monotonic()`` after which it waits for nobody."""
