"""Where the time of a request went on a worker, stage by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Timings:
    """Wall time of each stage, in milliseconds; a stage entered twice adds up."""

    stages_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - began) * 1000
            self.stages_ms[name] = self.stages_ms.get(name, 0.0) + spent

    def rounded(self) -> dict[str, float]:
        return {name: round(spent, 3) for name, spent in self.stages_ms.items()}
