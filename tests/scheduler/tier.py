"""A tier in one process: a real worker's driver, a real scheduler, and an engine small enough to follow by hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from forebay import Admission, Emission, Engine, Modality, ModelSource, Processor, Prompt, Room
from forebay.media import digest_of
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff.connection import Client
from handoff.keys import Keys
from handoff.media import Spool
from handoff.moves import Moves
from handoff.pool import Owner, Pool
from handoff.requeue import queue_entry
from scheduler.intake import Intake
from scheduler.loop import Scheduler
from tests.support.media import encoded
from tests.support.toys import IMAGE_TOKEN, Toy, loaded
from tests.support.ways import MODEL, NODE, Way
from workers.driver import Driver

SECRET = b"0123456789abcdef"
POOL_BYTES = 1 << 20


class Plain(Toy):
    """The toy with ordinary positions: a text alone needs no memory of the pool."""

    def positions(self, expansion: Any, items: Any) -> Any:
        return None


class Echo(Engine):
    """Says the prompt back, one token a step, and in the end the sum of its features."""

    most_requests, most_tokens = 4, 64

    def __init__(self) -> None:
        self.admitted: dict[str, Admission] = {}
        self.said: dict[str, int] = {}
        self.aborted: list[str] = []

    @classmethod
    def create(cls, model: ModelSource) -> Echo:
        return cls()

    def room(self) -> Room:
        taken = sum(len(admission.input_ids) for admission in self.admitted.values())
        return Room(self.most_requests - len(self.admitted), self.most_tokens - taken)

    def admit(self, admission: Admission) -> None:
        self.admitted[admission.rid] = admission
        self.said[admission.rid] = 0

    def step(self) -> Sequence[Emission]:
        return [self.say(rid) for rid in list(self.admitted)]

    def say(self, rid: str) -> Emission:
        """The next word of one answer."""
        admission, number = self.admitted[rid], self.said[rid]
        self.said[rid] += 1
        text = f"{admission.input_ids[number]} "
        if self.said[rid] < min(len(admission.input_ids), admission.max_new_tokens):
            return Emission(rid, text, 1)
        total = sum(float(item.array.sum()) for item in admission.items)
        self.forget(rid)
        return Emission(rid, text, 1, "stop", {"sum": total})

    def abort(self, rid: str) -> None:
        self.aborted.append(rid)
        self.forget(rid)

    def forget(self, rid: str) -> None:
        self.admitted.pop(rid, None)
        self.said.pop(rid, None)


@dataclass
class Tier:
    """Both sides of one node's hand-off. Each method is a step that a process of its own would take."""

    way: Way
    folder: Path
    store: Spool
    engine: Echo
    processor: Processor
    driver: Driver = field(init=False)
    scheduler: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        Pool.create(self.folder / "pool", POOL_BYTES)
        life = Owner(self.folder, "worker")
        self.driver = Driver(
            node=NODE,
            secret=SECRET,
            redis=self.way.client,
            moves=self.way.moves,
            pool=Pool(self.folder / "pool", life.id, writable=True),
            store=self.store,
            processors={MODEL: loaded(self.processor, MODEL)},
            life=life,
        )
        self.scheduler = self.another_scheduler(self.engine)

    def another_scheduler(self, engine: Engine, drain_s: float = 5.0) -> Scheduler:
        """A scheduler process of this node."""
        life = Owner(self.folder, "scheduler")
        pool = Pool(self.folder / "pool", life.id, writable=False)
        return Scheduler(Intake(self.way.client, self.way.moves, pool, NODE, MODEL), engine, SECRET, drain_s)

    def queue(self, rid: str, ids: Sequence[int], rows: Sequence[int], *, samples: int = 1, **sampling: Any) -> None:
        """Accept a request and queue its task, as the API does it; a picture of so many rows each."""
        media = tuple(self._picture(number, height) for number, height in enumerate(rows))
        body = TaskBody(Kind.GENERATE, Prompt(ids=tuple(ids)), media, sampling=sampling, samples=samples)
        accepted = self.way.accept(rid, f"token of {rid}", reply_to="api-1")
        assert accepted.outcome == "ok"
        task = Task(rid, f"token of {rid}", 1, MODEL, accepted.deadline_ms, 0, body.pack())
        entry = queue_entry(task, body, NODE, "text", SECRET)
        move = self.way.moves.enqueue(rid, task.token, seal(body.pack(), SECRET), NODE, "text", entry)
        assert self.way.do(move).ok

    def _picture(self, number: int, height: int) -> MediaRef:
        data = encoded(np.full((height, 2, 3), number + 1, np.uint8), "PNG")
        self.store.put(digest_of(data), data)
        return MediaRef(Modality.IMAGE, digest_of(data), len(data), f"image_data[{number}]")

    def work(self) -> None:
        """Do what is on the queue, as a worker's child does it."""
        queue = self.way.moves.keys.queue(NODE, "text")
        while entry := self.way.client.rpop(queue):
            (message,), _, _ = msgpack.unpackb(base64.b64decode(json.loads(entry)["body"]))
            self.driver.run(message)

    def park(self, rid: str = "r1", ids: Sequence[int] = (1, 2), **sampling: Any) -> None:
        """A text-only request, ready for the scheduler. Its ids travel in the ticket."""
        self.queue(rid, ids, (), **sampling)
        self.work()
        assert self.way.state(rid) == "parked"

    def park_picture(self, rid: str = "r1", rows: Sequence[int] = (2,), **sampling: Any) -> None:
        """A request with pictures, whose features and ids lie in the pool."""
        ids = [1, *[IMAGE_TOKEN] * len(rows), 2]
        self.queue(rid, ids, rows, **sampling)
        self.work()
        assert self.way.state(rid) == "parked"

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.scheduler.turn()

    def finish(self, *rids: str) -> None:
        """Turn until these have ended."""
        for _ in range(50):
            if all(self.way.record(rid).state.is_end for rid in rids):
                return
            self.turn()
        raise AssertionError({rid: self.way.state(rid) for rid in rids})

    @property
    def blocks(self) -> int:
        """Blocks of the pool that are taken."""
        return self.driver.pool.stats().blocks

    def pieces(self) -> list[tuple[str, str, int, str]]:
        """What callers were told on the way: request, claim, number, text."""
        told = [event for event in self.way.events() if event["event"] == b"piece"]
        return [
            (event["rid"].decode(), event["claim"].decode(), int(event["seq"]), msgpack.unpackb(event["piece"])[0])
            for event in told
        ]


def make_tier(client: Client, folder: Path, disk: Path, engine: Echo, processor: Processor | None = None) -> Tier:
    """A tier over a server, a folder on tmpfs and one on disk; somebody listens for its answers."""
    way = Way(client, Moves(Keys("test:")))
    way.listen()
    return Tier(way, folder, Spool(disk / "media"), engine, processor or Plain(ModelSource(MODEL)))
