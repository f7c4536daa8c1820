"""``python -m benchmarks.handoff``: what it costs to get features from a worker to a scheduler, in one run.

Four ways to hand over 22.5 MB, side by side; what of a request is hand-off; bytes copied; hit against miss; the pool's
table and the index as they fill. Prints tables and writes ``benchmarks/results/handoff.json``.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.filling import measure_index, measure_table
from benchmarks.node import server
from benchmarks.ways import FreshSegment, OurPool, PickledPipe, RedisBytes, Way, look
from benchmarks.whole import ROWS, VALUES, measure_cache, measure_requests
from handoff.pool import Pool
from workers.cores import one_thread_each

RESULTS = Path(__file__).parent / "results" / "handoff.json"
OURS = "forebay's pool"


@dataclass(frozen=True, slots=True)
class Handed:
    """Medians of one way, in milliseconds; CPU is of both processes, without that of Redis."""

    wall_ms: float
    cpu_ms: float


def measure_ways(rounds: int = 40) -> dict[str, Handed]:
    """Hand the same array over in turns."""
    array = np.random.default_rng(0).standard_normal((ROWS, VALUES), np.float32)
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as shm,
        tempfile.TemporaryDirectory() as disk,
        server(Path(disk)) as url,
    ):
        Pool.create(Path(shm) / "pool", 128 << 20)
        ways: dict[str, Way] = {
            OURS: OurPool(Path(shm) / "pool"),
            "a fresh shared-memory segment": FreshSegment(),
            "pickled through a pipe": PickledPipe(),
            "bytes in Redis": RedisBytes(url),
        }
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(-3, rounds):
            for name, way in ways.items():
                sample = _hand_over(way, array)
                if number >= 0:
                    samples[name].append(sample)
        for way in ways.values():
            way.close()
    return {name: _medians(taken) for name, taken in samples.items()}


def _medians(taken: list[tuple[float, float]]) -> Handed:
    wall, cpu = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
    return Handed(wall, cpu)


def _hand_over(way: Way, array: np.ndarray) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    seen, spent_there = way.send(array)
    spent = (time.perf_counter() - wall, time.process_time() - cpu + spent_there)
    assert seen == look(array), "it arrived damaged"
    return spent


def main() -> None:
    one_thread_each()
    console = Console()
    console.print("22.5 MB of features: one 1280x720 picture for Qwen2-VL, float32\n")
    ways = measure_ways()
    _show_ways(console, ways)
    requests = measure_requests()
    console.print(
        f"a request, worker and scheduler: {requests['request']:.1f} ms CPU\n"
        f"its hand-off: {requests['handoff']:.2f} ms, {requests['share']:.1%} of it (goal: below 10 %)\n"
        f"bytes copied per feature byte: {requests['bytes_copied_per_feature_byte']:.2f} (goal: 1.0, the write itself)"
    )
    cache = measure_cache()
    console.print(
        f"the worker's part: a miss {cache['miss']:.1f} ms CPU, a hit {cache['hit']:.2f} ms: "
        f"{cache['miss'] / cache['hit']:.1f} times cheaper (goal: at least 10)\n"
    )
    table, index = measure_table(), measure_index()
    _show_filling(console, "take a block and give it back", "blocks taken", table)
    _show_filling(console, "claim one ticket", "tickets parked", index)
    report = {
        "machine": {"cores": os.cpu_count()},
        "ways": {name: asdict(handed) for name, handed in ways.items()},
        "requests": requests,
        "cache": cache,
        "table_us": table,
        "index_us": index,
    }
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"written to {RESULTS.relative_to(Path.cwd())}")


def _show_ways(console: Console, ways: Mapping[str, Handed]) -> None:
    table = Table("way", "wall ms", "CPU ms", "wall, ours = 1", title="One item from one process to another, medians")
    for name, handed in ways.items():
        ratio = handed.wall_ms / ways[OURS].wall_ms
        table.add_row(name, f"{handed.wall_ms:.2f}", f"{handed.cpu_ms:.2f}", f"{ratio:.1f}")
    console.print(table)


def _show_filling(console: Console, step: str, what: str, found: Mapping[int, tuple[float, float]]) -> None:
    table = Table(what, "median µs", "least µs", title=f"To {step}")
    for count, (median, least) in found.items():
        table.add_row(f"{count:,}", f"{median:.1f}", f"{least:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
