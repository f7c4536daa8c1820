"""The whole tier end to end: images a second, and which process spends how much CPU on one."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.load import Load, requests, send
from forebay.settings import load as load_settings
from launch.part import Part
from launch.proof import descendants
from launch.settings import UpSettings
from launch.supervisor import Supervisor
from launch.up import Run, Urls, running

CHILDREN = 2
CONNECTIONS = 8
SECONDS = 8.0
RUNS = 3
PARTS = ("api", "worker parent", "worker children", "scheduler", "redis")


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the runs."""

    images_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    cpu_ms: Mapping[str, float]
    """CPU an image, by part."""

    def rest_ms(self, kernel_cpu_ms: float) -> float:
        """CPU an image beyond the kernel: HTTP, Redis, Celery, index, reply."""
        return sum(self.cpu_ms.values()) - kernel_cpu_ms


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many different pictures there are, and how much of the pool may keep their features."""

    pictures: int
    cache_bytes: str


WITHOUT_CACHE = Traffic(16, "0")
NOTHING_TWICE = Traffic(256, "128MiB")  # room for five of them
ALL_KNOWN = Traffic(16, "400MiB")  # room for all of them


def measure(traffic: Traffic = WITHOUT_CACHE, runs: int = RUNS, seconds: float = SECONDS) -> Result:
    """Run the tier with two pinned children and an engine that answers at once."""
    overrides = {
        "FOREBAY_MODELS": "qwen2-vl",
        "FOREBAY_PORT": "0",
        "FOREBAY_WORKERS": str(CHILDREN),
        "FOREBAY_POOL_BYTES": "768MiB",
        "FOREBAY_CACHE_BYTES": traffic.cache_bytes,
        "FOREBAY_FLOWER": "0",
    }
    with running(load_settings(UpSettings, overrides), lambda _: None, extra_parts=_null_scheduler) as (watch, urls):
        return _measure(watch, urls, traffic.pictures, runs, seconds)


def _null_scheduler(run: Run) -> list[Part]:
    argv = [sys.executable, "-m", "benchmarks.null_scheduler"]
    return [Part("scheduler:null", argv, {**run.environment, "FOREBAY_MODEL": "qwen2-vl"})]


def _measure(watch: Supervisor, urls: Urls, pictures: int, runs: int, seconds: float) -> Result:
    port = urlsplit(urls.api).port or 0
    prepared = requests("127.0.0.1", "/generate", pictures)
    asyncio.run(send(port, prepared, CONNECTIONS, 2.0))  # warm
    loads, costs = [], []
    for _ in range(runs):
        before = cpu_by_part(watch)
        load = asyncio.run(send(port, prepared, CONNECTIONS, seconds))
        after = cpu_by_part(watch)
        if load.failures:
            raise RuntimeError(f"{len(load.failures)} requests failed, the first with {load.failures[0]}")
        loads.append(load)
        costs.append({part: (after[part] - before[part]) / len(load.latencies_s) * 1000 for part in PARTS})
    return _medians(loads, costs)


def _medians(loads: list[Load], costs: list[dict[str, float]]) -> Result:
    return Result(
        images_per_s=statistics.median(load.rate for load in loads),
        latency_p50_ms=statistics.median(load.percentile_ms(0.5) for load in loads),
        latency_p99_ms=statistics.median(load.percentile_ms(0.99) for load in loads),
        cpu_ms={part: statistics.median(cost[part] for cost in costs) for part in PARTS},
    )


def cpu_by_part(watch: Supervisor) -> dict[str, float]:
    """CPU seconds that each part has used so far, its children included."""
    pids = watch.pids
    return {
        "api": cpu_s(pids["api"]),
        "worker parent": cpu_s(pids["worker"]),
        "worker children": sum(cpu_s(pid) for pid in descendants(pids["worker"])),
        "scheduler": cpu_s(pids["scheduler:null"]),
        "redis": cpu_s(pids["redis"]),
    }


def cpu_s(pid: int) -> float:
    """User and system time of one process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
