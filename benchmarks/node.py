"""A node in one process: a real server, a real pool, a worker's driver and a scheduler's intake."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from forebay import Modality, Prompt, Room
from forebay.media import digest_of
from forebay.plugins import LoadedProcessor
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff.connection import connect
from handoff.keys import Keys
from handoff.media import Spool
from handoff.moves import Admit, Moves
from handoff.pool import FeatureCache, Owner, Pool
from handoff.scripts import perform
from launch.redis_server import prepare
from scheduler.intake import Intake
from workers.driver import Driver

SECRET = b"benchmark-benchmark"
NODE = "bench"
ROOM = Room(1, 1 << 40)


@dataclass(slots=True)
class BenchNode:
    """Both sides of one node's hand-off."""

    url: str
    folder: Path
    store: Spool
    driver: Driver
    intake: Intake
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def message(self, data: bytes, prompt: Prompt) -> bytes:
        """Accept and queue a request for one picture, as the API does; what a worker gets."""
        rid = f"r{next(self._numbers)}"
        self.store.put(digest_of(data), data)
        ref = MediaRef(Modality.IMAGE, digest_of(data), len(data), "image_data")
        body = TaskBody(Kind.GENERATE, prompt, (ref,)).pack()
        moves, model = self.driver.moves, self.intake.model
        perform(self.driver.redis, moves.accept(Admit(rid, rid, model, "generate", 0, "", 600_000, 1 << 30)))
        perform(self.driver.redis, moves.enqueue(rid, rid, seal(body, SECRET), NODE, "text", b""))
        return Task(rid, rid, 1, model, 0, 0, body).pack(SECRET)

    def work(self, message: bytes) -> None:
        """The worker's part, from the message to the parked ticket."""
        self.driver.run(message)

    def read(self) -> None:
        """The scheduler's part, from the poll to the released features."""
        [taken], gone = self.intake.poll(ROOM)
        assert not gone
        self.intake.release(taken)


@contextmanager
def bench_node(loaded: LoadedProcessor, pool_bytes: int, *, cache_bytes: int) -> Iterator[BenchNode]:
    """A node for the time of the block."""
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as shm,
        tempfile.TemporaryDirectory() as disk,
        server(Path(disk)) as url,
    ):
        folder, client, moves = Path(shm), connect(url, "benchmark"), Moves(Keys("bench:"))
        Pool.create(folder / "pool", pool_bytes)
        worker, reader = Owner(folder, "worker"), Owner(folder, "scheduler")
        pool = Pool(folder / "pool", worker.id, writable=True)
        cache = FeatureCache(pool)
        cache.set_budget(cache_bytes)
        store = Spool(Path(disk) / "media")
        driver = Driver(
            node=NODE,
            secret=SECRET,
            redis=client,
            moves=moves,
            pool=pool,
            store=store,
            processors={loaded.name: loaded},
            life=worker,
            cache=cache if cache_bytes else None,
        )
        intake = Intake(client, moves, Pool(folder / "pool", reader.id, writable=False), NODE, loaded.name)
        yield BenchNode(url, folder, store, driver, intake)
        worker.close()
        reader.close()


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A server of our own; its URL."""
    embedded = prepare(folder, None)
    process = subprocess.Popen(embedded.argv, stdin=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                redis.Redis.from_url(embedded.url).ping()
                break
            except redis.ConnectionError:
                time.sleep(0.02)
        yield embedded.url
    finally:
        process.kill()
        process.wait()
