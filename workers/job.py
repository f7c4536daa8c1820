"""One attempt at one request, as those see it who work on it."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.task import Task, TaskBody
from workers.reservation import Reservation
from workers.timings import Timings


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
