"""The callers: they ask for pictures, now and then change their minds, and keep account of how each request ended."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgpack

from forebay import Modality, Prompt
from forebay.media import digest_of
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff.connection import Client
from handoff.media import Spool
from handoff.moves import Moves
from handoff.requeue import queue_entry
from tests.support.kill.gallery import PICTURES, SHA256, drawn, pictures_of, prompt, rid_of
from tests.support.kill.mortals import KEYS, SECRET
from tests.support.ways import MODEL, NODE, Way

API = "api-1"
_BROKEN = b"\x89PNG\r\n\x1a\n and nothing more"
_POPULARITY = [1 / (1 + rank) for rank in range(PICTURES)]
_FORESEEN = {  # by code: what a request may fail of when everybody is killed
    "abandoned",
    "features_gone",
    "pool_full",
}


@dataclass
class Callers:
    """Everybody who asks.

    Attributes:
        live: ids of what was accepted and has not ended, with their deadlines (wall clock, seconds).
        ends: how many requests ended how.
        wrong: what an end said that must not be.
    """

    redis: Client
    store: Spool
    live: dict[str, float] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    accepted: int = 0
    _position: str = "0"

    def __post_init__(self) -> None:
        self._way = Way(self.redis, Moves(KEYS))
        self._way.listen(API)
        self._media = [self._stored(drawn(picture)) for picture in range(PICTURES)]
        self._broken = self._stored(_BROKEN)

    def _stored(self, data: bytes) -> tuple[str, int]:
        self.store.put(digest_of(data), data)
        return digest_of(data), len(data)

    def ask(self) -> None:
        """One more request: to generate, to preprocess, or with a picture that is none."""
        kind = random.choices(["generate", "preprocess", "broken"], [85, 10, 5])[0]
        pictures = random.choices(range(PICTURES), _POPULARITY, k=random.choice([0, 1, 1, 1, 2, 2, 3]))
        rid = rid_of(kind, self.accepted, pictures)
        media = [self._media[picture] for picture in pictures] + ([self._broken] if kind == "broken" else [])
        refs = tuple(MediaRef(Modality.IMAGE, digest, size, "image_data") for digest, size in media)
        ids = prompt([*pictures, 0]) if kind == "broken" else prompt(pictures)
        body = TaskBody(Kind.PREPROCESS if kind == "preprocess" else Kind.GENERATE, Prompt(ids=ids), refs)
        timeout_ms = random.choice([2_000, 5_000, 20_000, 60_000])
        told = self._way.accept(rid, f"t-{rid}", reply_to=API, timeout_ms=timeout_ms, kind=str(body.kind))
        self._queue(rid, body, told.deadline_ms)
        self.live[rid] = told.deadline_ms / 1000
        self.accepted += 1

    def _queue(self, rid: str, body: TaskBody, deadline_ms: int) -> None:
        packed = body.pack()
        task = Task(rid, f"t-{rid}", 1, MODEL, deadline_ms, 0, packed)
        entry = queue_entry(task, body, NODE, "text", SECRET)
        moved = self._way.do(self._way.moves.enqueue(rid, task.token, seal(packed, SECRET), NODE, "text", entry))
        assert moved.ok

    def change_a_mind(self) -> None:
        """Cancel one of the requests that are under way, if there is any."""
        if self.live:
            self._way.cancel(random.choice(list(self.live)))

    def hear(self) -> None:
        """Take in what callers were told."""
        for position, fields in self._told():
            self._position = position.decode()
            if fields.get(b"event") == b"end":
                self._end(fields)
        self.redis.xtrim(KEYS.out(API), minid=self._position, approximate=False)

    def _told(self) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        reply: Any = self.redis.xread({KEYS.out(API): self._position}, count=1000)
        for _, entries in reply:
            yield from entries

    def _end(self, fields: dict[bytes, bytes]) -> None:
        rid, state = fields[b"rid"].decode(), fields[b"state"].decode()
        if self.live.pop(rid, None) is None:
            self.wrong.append(f"{rid} has ended a second time, as {state}")
        code = msgpack.unpackb(fields[b"problem"])["code"] if fields[b"problem"] else ""
        self.ends[f"{state} ({code})" if state == "failed" else state] += 1
        if state == "failed" and code not in _FORESEEN:
            self.wrong.append(f"{rid} has failed of {code}")
        if state == "done":
            self._check(rid, msgpack.unpackb(fields[b"result"]))
        if state == "rejected" and not rid.startswith("broken"):
            self.wrong.append(f"{rid} was rejected: {fields[b'problem']!r}")

    def _check(self, rid: str, result: dict[str, Any]) -> None:
        pictures = pictures_of(rid)
        if rid.startswith("generate"):
            seen, expected = result["outputs"][0]["meta"]["pictures"], pictures
        else:
            seen = [item["feature"]["sha256"] for item in result["items"]]
            expected = [SHA256[picture] for picture in pictures]
        if seen != expected or rid.startswith("broken"):
            self.wrong.append(f"{rid} was answered with {seen}")

    def overdue(self, grace_s: float) -> list[str]:
        """What should have ended by now."""
        limit = time.time() - grace_s
        return [rid for rid, deadline in self.live.items() if deadline < limit]
