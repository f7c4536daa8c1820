"""A scheduler whose engine answers at once: what is left is the tier itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from forebay.engine import Admission, Emission, Engine, Room
from forebay.model import ModelSource
from forebay.settings import load
from scheduler.boot import run_scheduler
from scheduler.settings import SchedulerSettings


class NullEngine(Engine):
    """Reads one number of every feature, so that the mapping is real, and stops."""

    def __init__(self) -> None:
        self.waiting: list[Admission] = []

    @classmethod
    def create(cls, model: ModelSource) -> Engine:
        return cls()

    def room(self) -> Room:
        return Room(64 - len(self.waiting), 1 << 20)

    def admit(self, admission: Admission) -> None:
        self.waiting.append(admission)

    def step(self) -> Sequence[Emission]:
        done, self.waiting = self.waiting, []
        return [self._answer(admission) for admission in done]

    def _answer(self, admission: Admission) -> Emission:
        total = sum(float(item.array.flat[0]) for item in admission.items)
        return Emission(admission.rid, f"{total:.3f}", 1, "stop")

    def abort(self, rid: str) -> None:
        self.waiting = [admission for admission in self.waiting if admission.rid != rid]


if __name__ == "__main__":
    sys.exit(run_scheduler(load(SchedulerSettings), NullEngine))
