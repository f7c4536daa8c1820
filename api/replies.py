"""Answers on their way back: one reader a process hands each event to the caller that waits for it.

Events come over a stream of this process' own. Should one be lost (a restarted Redis, a trimmed stream), the record
still tells the end: the waiting requests are looked up now and then.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgpack

from forebay.errors import Failed, Problem
from forebay.states import State
from handoff.connection import MAX_BLOCK_MS, AsyncClient, redis_failures
from handoff.keys import Keys
from handoff.record import read_async, read_problem

log = logging.getLogger(__name__)

_STREAM_TTL_MS = 60_000  # outlives a pause of this process, not its death
_KEEP_EVERY_S = 1.0
_LOOK_UP_EVERY_S = 5.0
_PAUSE_AFTER_ERROR_S = 0.5


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of answer number ``sample``. Another ``claim`` than before means that every answer began anew."""

    claim: str
    sequence: int
    text: str
    tokens: int
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a request."""

    state: State
    problem: Problem | None
    result: Mapping[str, Any] | None


Event = Piece | Ended


@dataclass(slots=True)
class Watch:
    """One caller's view of its request: an iterator of pieces that stops after the end."""

    rid: str
    token: str
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether anything has been told yet."""

    def tell(self, event: Event) -> None:
        """One more event."""
        self.events.put_nowait(event)
        self.arrived.set()

    async def until_end(self) -> AsyncIterator[Event]:
        while True:
            event = await self.events.get()
            yield event
            if isinstance(event, Ended):
                return

    async def end(self) -> Ended:
        async for event in self.until_end():
            if isinstance(event, Ended):
                return event
        raise AssertionError("a watch ends with an end")


class Replies:
    """The reader of this process' stream."""

    def __init__(self, client: AsyncClient, keys: Keys) -> None:
        self.name = f"api-{secrets.token_hex(6)}"
        self._client = client
        self._keys = keys
        self._stream = keys.out(self.name)
        self._watches: dict[str, Watch] = {}
        self._last = "0"

    @property
    def waiting(self) -> int:
        """Callers that wait now."""
        return len(self._watches)

    @contextmanager
    def watch(self, rid: str, token: str) -> Iterator[Watch]:
        """Receive the events of one request. Begin before it is queued."""
        watch = Watch(rid, token)
        self._watches[token] = watch
        try:
            yield watch
        finally:
            del self._watches[token]

    async def run(self) -> None:
        """Read until cancelled. Redis may come and go."""
        kept = looked_up = float("-inf")
        while True:
            now = asyncio.get_running_loop().time()
            try:
                if now - kept > _KEEP_EVERY_S:
                    await self._keep_stream()
                    kept = now
                await self._read()
                if now - looked_up > _LOOK_UP_EVERY_S:
                    await self._look_up()
                    looked_up = now
            except Failed as error:
                log.warning("replies interrupted", extra={"reason": error.message, "waiting": self.waiting})
                kept = float("-inf")  # whoever comes back may have forgotten the stream
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)

    async def open(self) -> None:
        """Make the stream, so that events can arrive.

        Raises:
            Failed: Redis cannot be reached.
        """
        await self._keep_stream()

    async def close(self) -> None:
        try:
            with redis_failures():
                await self._client.delete(self._stream)
        finally:
            await self._client.aclose()

    async def _keep_stream(self) -> None:
        """Renew the stream's life and drop what has been read; make it anew where it is gone."""
        with redis_failures():
            await self._client.xtrim(self._stream, minid=self._last)
            if not await self._client.pexpire(self._stream, _STREAM_TTL_MS):
                self._last = "0"
                await self._client.xadd(self._stream, {"event": "open"})
                await self._client.pexpire(self._stream, _STREAM_TTL_MS)

    async def _read(self) -> None:
        with redis_failures():
            reply: Any = await self._client.xread({self._stream: self._last}, count=1000, block=MAX_BLOCK_MS)
        for _, entries in reply.items() if isinstance(reply, dict) else reply or ():
            for entry_id, fields in _entries(entries):
                self._last = entry_id
                self._deliver(fields)

    def _deliver(self, fields: Mapping[bytes, bytes]) -> None:
        watch = self._watches.get(fields.get(b"token", b"").decode())
        event = _read_event(fields) if watch else None
        if watch and event:
            watch.tell(event)

    async def _look_up(self) -> None:
        """Deliver ends whose events never came; a second end in a queue is never read."""
        for watch in list(self._watches.values()):
            found = await read_async(self._client, self._keys, watch.rid)
            if found is None or found.token != watch.token:
                problem = Problem("request_lost", "the request store no longer knows this request", 503)
                watch.tell(Ended(State.FAILED, problem, None))
            elif found.state.is_end:
                watch.tell(Ended(found.state, found.problem, found.result))


def _entries(entries: Any) -> Iterator[tuple[str, Mapping[bytes, bytes]]]:
    """Stream entries as (id, fields), whichever protocol version shaped the reply."""
    if entries and isinstance(entries[0], list) and entries[0] and isinstance(entries[0][0], (list, tuple)):
        entries = [entry for group in entries for entry in group]
    for entry_id, fields in entries:
        yield entry_id.decode(), fields


def _read_event(fields: Mapping[bytes, bytes]) -> Event | None:
    match fields[b"event"]:
        case b"piece":
            text, tokens, sample = msgpack.unpackb(fields[b"piece"])
            return Piece(fields[b"claim"].decode(), int(fields[b"seq"]), text, tokens, sample)
        case b"end":
            packed = fields[b"result"]
            result = msgpack.unpackb(packed) if packed else None
            return Ended(State(fields[b"state"].decode()), read_problem(fields[b"problem"]), result)
        case _:
            return None
