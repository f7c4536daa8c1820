"""Wall and CPU time of things that are measured in turns, so that a slow moment of the machine hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the rounds, in milliseconds; CPU counts every thread of the process."""

    wall_ms: float
    cpu_ms: float
    least_wall_ms: float


def race(runners: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 5) -> dict[str, Cost]:
    """Run everything in turns and return what each costs."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in runners}
    for number in range(-warm_up, rounds):
        for name, run in runners.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            spent = (time.perf_counter() - wall, time.process_time() - cpu)
            if number >= 0:
                samples[name].append(spent)
    return {name: _cost(taken) for name, taken in samples.items()}


def _cost(taken: list[tuple[float, float]]) -> Cost:
    walls, cpus = [wall * 1000 for wall, _ in taken], [cpu * 1000 for _, cpu in taken]
    return Cost(statistics.median(walls), statistics.median(cpus), min(walls))
