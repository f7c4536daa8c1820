"""``make bench``: measure, print a table, write ``benchmarks/results/latest.json``."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import tier
from benchmarks.kernel import COPIED, OURS

RESULTS = Path(__file__).parent / "results" / "latest.json"


_MEASURE = (
    "import json; from dataclasses import asdict; from benchmarks.kernel import measure; "
    "print(json.dumps({name: asdict(cost) for name, cost in measure().items()}))"
)
_MEASURE_OURS = "from benchmarks.kernel import measure_ours; print(measure_ours().cpu_ms)"


def in_processes(code: str, count: int) -> list[str]:
    """The last line that each of ``count`` processes prints; torch stays out of the one that drives the load."""
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(count)]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a measurement failed; see above")
    return [output.splitlines()[-1] for output in outputs]


_CACHED = {"no picture comes twice": tier.NOTHING_TWICE, "every picture is known": tier.ALL_KNOWN}


def main() -> None:
    console = Console()
    console.print("1280x720 JPEG, quality 90, to 1288x728 Qwen2-VL features (22.5 MB float32)\n")
    costs: dict[str, Any] = json.loads(in_processes(_MEASURE, 1)[0])
    busy_ms = statistics.median(float(line) for line in in_processes(_MEASURE_OURS, tier.CHILDREN))
    ratio = costs[OURS]["cpu_ms"] / costs[COPIED]["cpu_ms"]
    _show_kernel(console, costs, ratio)
    result = tier.measure()
    rest_ms = result.rest_ms(busy_ms)
    _show_tier(console, result, rest_ms, busy_ms)
    cached = {name: tier.measure(traffic) for name, traffic in _CACHED.items()}
    _show_cache(console, {"cache off": result, **cached})
    report = {
        "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
        "kernel": costs,
        "kernel_ratio": ratio,
        "kernel_cpu_ms_with_children_busy": busy_ms,
        "tier": asdict(result),
        "rest_cpu_ms": rest_ms,
        "cache": {name: asdict(one) for name, one in cached.items()},
    }
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"written to {RESULTS.relative_to(Path.cwd())}")


def _show_kernel(console: Console, costs: dict[str, Any], ratio: float) -> None:
    table = Table("kernel, one thread", "CPU ms", "wall ms", "least wall ms", title="One image, medians")
    for name, cost in costs.items():
        table.add_row(name, *(f"{cost[key]:.1f}" for key in ("cpu_ms", "wall_ms", "least_wall_ms")))
    console.print(table)
    console.print(f"forebay / (transformers + fresh segment): {ratio:.2f} of the CPU (goal: at most 0.60)\n")


def _show_tier(console: Console, result: tier.Result, rest_ms: float, busy_ms: float) -> None:
    table = Table(
        "part", "CPU ms an image", title=f"End to end, {tier.CONNECTIONS} connections, {tier.CHILDREN} worker children"
    )
    for part, spent in result.cpu_ms.items():
        table.add_row(part, f"{spent:.2f}")
    console.print(table)
    console.print(
        f"{result.images_per_s:.1f} images/s, latency p50 {result.latency_p50_ms:.0f} ms, "
        f"p99 {result.latency_p99_ms:.0f} ms (the load generator shares the cores)\n"
        f"the kernel alone, {tier.CHILDREN} processes at once: {busy_ms:.1f} ms CPU an image\n"
        f"all the rest: {rest_ms:.1f} ms CPU an image (goal: at most 5)\n"
    )


def _show_cache(console: Console, results: dict[str, tier.Result]) -> None:
    table = Table("traffic", "images/s", "p50 ms", "children, CPU ms an image", title="The same with the feature cache")
    for name, result in results.items():
        children = result.cpu_ms["worker children"]
        table.add_row(name, f"{result.images_per_s:.1f}", f"{result.latency_p50_ms:.0f}", f"{children:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
