"""``python -m benchmarks.queue``: what the worker's transport costs a message, beside kombu's own, in one run.

Real Celery workers with two children and a task that does nothing, over kombu's transport and over ours, in turns:
messages a second from a full queue, time from push to acknowledgement of one alone, and how often Redis had to read
from a socket for one. Prints a table and writes ``benchmarks/results/queue.json``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
from rich.console import Console
from rich.table import Table

from benchmarks.node import NODE, SECRET, server
from forebay.settings import SharedSettings
from handoff.envelope import Label, envelope
from handoff.keys import LANES, Keys, queue_name
from handoff.queue import TASK, QueueWorker, make_app

RESULTS = Path(__file__).parent / "results" / "queue.json"
LIFE = "bench"
KEYS = Keys("bench:")
ROUNDS, MESSAGES, ALONE = 3, 2000, 100
LABEL = Label.of("r", 1, "noop", 1, 100_000)
WAYS = {"kombu's transport": "", "ours": LIFE}
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the rounds."""

    messages_per_s: float
    alone_ms: float
    reads_a_message: float


def run_worker(url: str, life: str) -> None:
    """A worker whose one task does nothing. Only returns when it is told to stop."""
    settings = SharedSettings(secret=SECRET, redis_url=url, deployment="bench")
    app = make_app(settings, QueueWorker(NODE, life))
    app.task(do_nothing, name=TASK, ignore_result=True)
    options = {"concurrency": 2, "pool": "prefork", "optimization": "fair", "loglevel": "ERROR", "quiet": True}
    queues = [queue_name(NODE, lane) for lane in LANES]
    app.Worker(queues=queues, without_gossip=True, without_mingle=True, **options).start()


def do_nothing(message: bytes) -> None:
    """The task."""


@contextmanager
def worker(url: str, life: str) -> Iterator[None]:
    """A worker process for the time of the block."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.queue", url, life], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def push(client: redis.Redis, count: int) -> None:
    """Queue messages and ring, as the moves do."""
    entries = [envelope(f"r{number}.1", queue_name(NODE, "text"), b"m" * 300, LABEL) for number in range(count)]
    pipe = client.pipeline(transaction=True)
    pipe.lpush(KEYS.queue(NODE, "text"), *entries)
    pipe.lpush(KEYS.bell(NODE), "1")
    pipe.ltrim(KEYS.bell(NODE), 0, 0)
    pipe.execute()


def until_done(client: redis.Redis, every_s: float) -> int:
    """Wait until nothing waits and nothing is in hand; how often that was asked."""
    places = [KEYS.queue(NODE, "text"), KEYS.taken(NODE, LIFE, "text"), "bench:unacked"]
    asked, give_up_at = 1, time.monotonic() + 60
    while client.exists(*places):
        asked += 1
        if time.monotonic() > give_up_at:
            raise RuntimeError("the worker does not do what is queued")
        time.sleep(every_s)
    return asked


def reads(client: redis.Redis) -> int:
    """How often the server has read from a socket."""
    return int(client.info("stats")["total_reads_processed"])


def measure_once(client: redis.Redis) -> tuple[float, float, float]:
    push(client, 100)
    until_done(client, _POLL_S)  # warm
    before, began = reads(client), time.perf_counter()
    push(client, MESSAGES)
    asked = until_done(client, _POLL_S)
    spent = time.perf_counter() - began
    read = reads(client) - before - asked - 2  # the push, and this question itself
    alone = []
    for _ in range(ALONE):
        began = time.perf_counter()
        push(client, 1)
        until_done(client, 0.0002)
        alone.append((time.perf_counter() - began) * 1000)
    return MESSAGES / spent, statistics.median(alone), read / MESSAGES


def measure() -> dict[str, Cost]:
    """Both ways in turns."""
    samples: dict[str, list[tuple[float, float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as url, redis.Redis.from_url(url) as client:
        for _ in range(ROUNDS):
            for name, life in WAYS.items():
                client.flushall()
                with worker(url, life):
                    samples[name].append(measure_once(client))
    return {name: Cost(*map(statistics.median, zip(*taken, strict=True))) for name, taken in samples.items()}


def main() -> None:
    costs = measure()
    title = f"{MESSAGES} messages to two children that do nothing, medians of {ROUNDS} rounds"
    table = Table("transport", "messages/s", "one alone, ms", "reads of Redis a message", title=title)
    for name, cost in costs.items():
        table.add_row(name, f"{cost.messages_per_s:.0f}", f"{cost.alone_ms:.2f}", f"{cost.reads_a_message:.2f}")
    Console().print(table)
    RESULTS.write_text(json.dumps({name: asdict(cost) for name, cost in costs.items()}, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_worker(*sys.argv[1:])
    else:
        main()
