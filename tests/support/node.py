"""A node of the test's own: real Redis, real pool, real spool, and workers whose processor is a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay import Modality, Processor, Prompt
from forebay.media import digest_of
from forebay.plugins import LoadedProcessor
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff.connection import Client
from handoff.media import Spool
from handoff.moves import Moves
from handoff.pool import FeatureCache, Owner, Pool
from tests.support.toys import loaded
from tests.support.ways import MODEL, NODE, Way
from workers.driver import Driver

SECRET = b"0123456789abcdef"
POOL_BYTES = 1 << 20


@dataclass
class Node:
    """One node: its folder, its pool, and what its parts are made with."""

    way: Way
    folder: Path
    store: Spool
    pool: Pool
    drivers: list[Driver] = field(default_factory=list)

    def driver(self, processor: Processor | None = None, *, cached: bool = False) -> Driver:
        """A child that lives until the test ends, with or without a cache."""
        life = Owner(self.folder, "worker")
        processors: dict[str, LoadedProcessor] = {MODEL: loaded(processor, MODEL)}
        pool = Pool(self.folder / "pool", life.id, writable=True)
        driver = Driver(
            node=NODE,
            secret=SECRET,
            redis=self.way.client,
            moves=self.way.moves,
            pool=pool,
            store=self.store,
            processors=processors,
            life=life,
            cache=FeatureCache(pool) if cached else None,
        )
        self.drivers.append(driver)
        return driver

    def reference(self, data: bytes, modality: Modality = Modality.IMAGE, param: str = "image_data") -> MediaRef:
        """Put media into the store and refer to them."""
        self.store.put(digest_of(data), data)
        return MediaRef(modality, digest_of(data), len(data), param)

    def task(self, *media: MediaRef, rid: str = "r1", token: str = "t1", carried: bool = True, **body: Any) -> bytes:
        """Accept and queue a request; the message that a worker gets."""
        told = {"kind": Kind.GENERATE, "prompt": Prompt(ids=(1, *(7 for _ in media))), **body}
        packed = TaskBody(media=media, **told).pack()
        self.way.accept(rid, token, reply_to="api-1")
        self.way.enqueue(rid, token, body=seal(packed, SECRET))
        return Task(rid, token, 1, MODEL, 0, 0, packed if carried else None).pack(SECRET)


@contextmanager
def made_node(client: Client, moves: Moves, shm: Path, disk: Path) -> Iterator[Node]:
    """A node for the time of the block."""
    Pool.create(shm / "pool", POOL_BYTES)
    pool = Pool(shm / "pool", "test", writable=True)
    way = Way(client, moves)
    way.listen("api-1")
    node = Node(way, shm, Spool(disk / "media"), pool)
    yield node
    for driver in node.drivers:
        driver.life.close()
        driver.pool.close()
    pool.close()
