"""Reading a request's record: what the status endpoint, the reconciler and the tests see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from forebay.errors import Problem
from forebay.states import State
from handoff.connection import AsyncClient, Client, redis_failures
from handoff.keys import Keys
from handoff.moves import LOG, Seen

_TIMES = ("accepted", "queued", "processing", "parked", "admitted", "first_token", "end")


@dataclass(frozen=True, slots=True)
class Record:
    """A request as Redis knows it. ``times_ms`` are Redis' clock, in milliseconds."""

    rid: str
    state: State
    token: str
    tenant: str
    reply_to: str
    attempt: int
    model: str
    kind: str
    node: str
    lane: str
    owner: str
    priority: int
    deadline_ms: int
    lapses: int
    body: bytes
    times_ms: Mapping[str, int]
    ticket: bytes = b""
    resent: int = 0
    """How often its message was lost and sent again."""
    claim: str = ""
    worker_ms: Mapping[str, float] = field(default_factory=dict)
    problem: Problem | None = None
    result: Mapping[str, Any] | None = None

    @property
    def seen(self) -> Seen:
        return Seen(self.state, self.attempt, self.token)

    @property
    def tries(self) -> int:
        """How often it has been tried: each attempt of a worker, and each scheduler that its ticket has outlived."""
        return self.attempt + self.lapses

    @property
    def has_log(self) -> bool:
        """Whether its events are kept for whoever follows it."""
        return self.reply_to == LOG

    @classmethod
    def of(cls, rid: str, raw: Mapping[bytes, bytes]) -> Record:
        text = {name.decode(): value for name, value in raw.items()}

        def plain(name: str) -> str:
            return text.get(name, b"").decode()

        return cls(
            rid=rid,
            state=State(plain("state")),
            token=plain("token"),
            tenant=plain("tenant"),
            reply_to=plain("reply"),
            attempt=int(plain("attempt")),
            model=plain("model"),
            kind=plain("kind"),
            node=plain("node"),
            lane=plain("lane"),
            owner=plain("owner"),
            priority=int(plain("priority") or 0),
            deadline_ms=int(plain("deadline")),
            lapses=int(plain("lapses") or 0),
            resent=int(plain("resent") or 0),
            body=text.get("body", b""),
            ticket=text.get("ticket", b""),
            claim=plain("claim"),
            times_ms={name: int(text[f"t_{name}"]) for name in _TIMES if f"t_{name}" in text},
            worker_ms=msgpack.unpackb(text["timings"]) if text.get("timings") else {},
            problem=read_problem(text.get("problem", b"")),
            result=msgpack.unpackb(text["result"]) if text.get("result") else None,
        )


def read_problem(packed: bytes) -> Problem | None:
    """The problem of an end, if it has one."""
    return Problem.from_map(msgpack.unpackb(packed)) if packed else None


def read(client: Client, keys: Keys, rid: str) -> Record | None:
    """The record of a request, or ``None`` when there is none (any more)."""
    with redis_failures():
        raw: Any = client.hgetall(keys.record(rid))
    return Record.of(rid, raw) if raw else None


def read_all(client: Client, keys: Keys, rids: Sequence[str]) -> list[Record]:
    """Those of the records that there are, in one round trip."""
    with redis_failures():
        pipe = client.pipeline(transaction=False)
        for rid in rids:
            pipe.hgetall(keys.record(rid))
        found: Any = pipe.execute()
    return [Record.of(rid, raw) for rid, raw in zip(rids, found, strict=True) if raw]


async def read_async(client: AsyncClient, keys: Keys, rid: str) -> Record | None:
    """``read``, from an event loop."""
    with redis_failures():
        raw: Any = await client.hgetall(keys.record(rid))
    return Record.of(rid, raw) if raw else None


async def position_of(client: AsyncClient, keys: Keys, found: Record) -> int | None:
    """How many are before a request where it waits, for a worker or a scheduler; ``None`` when it waits for neither."""
    places = {State.QUEUED: keys.line(found.node, found.lane), State.PARKED: keys.parked(found.node, found.model)}
    place = places.get(found.state)
    if place is None:
        return None
    with redis_failures():
        rank: Any = await client.zrank(place, found.rid)
    return None if rank is None else int(rank)
