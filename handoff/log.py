"""The log of a request that nobody waits for: its states, the pieces of its answers, its end, in order.

An entry's id is Redis' own (milliseconds and a number), so a reader that was cut off goes on behind the last it saw.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from handoff.connection import MAX_BLOCK_MS, AsyncClient, redis_failures
from handoff.keys import Keys

BEGINNING = "0-0"
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_AT_ONCE = 500


def is_entry_id(text: str) -> bool:
    """Whether a reader can go on behind it."""
    return _ID.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Moved:
    """The request is in another state, or begins one anew under another attempt."""

    id: str
    state: str
    attempt: int

    @property
    def at_ms(self) -> int:
        """When, in Redis' time."""
        return int(self.id.partition("-")[0])


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of answer number ``sample``; ``sequence`` counts the pieces of one claim."""

    id: str
    sequence: int
    text: str
    tokens: int
    sample: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The request has ended, and nothing more comes."""

    id: str


Entry = Moved | Said | Closed


def _read_entry(id_: bytes, fields: Mapping[bytes, bytes]) -> Entry:
    name = id_.decode()
    match fields[b"event"]:
        case b"state":
            return Moved(name, fields[b"state"].decode(), int(fields[b"attempt"]))
        case b"piece":
            text, tokens, sample = msgpack.unpackb(fields[b"piece"])
            return Said(name, int(fields[b"seq"]), text, tokens, sample)
        case _:
            return Closed(name)


async def follow(
    client: AsyncClient, keys: Keys, rid: str, after: str = BEGINNING
) -> AsyncGenerator[Entry | None, None]:
    """Every entry behind ``after`` as it comes, to the end. ``None`` says that for some seconds nothing has come.

    Args:
        client: a connection of its own, which this keeps waiting.
        keys: the deployment's.
        rid: the request, as the tier calls it.
        after: the id of the last entry that was seen.

    Raises:
        Failed: Redis cannot be reached.
    """
    stream = keys.log(rid)
    while True:
        with redis_failures():
            reply: Any = await client.xread({stream: after}, count=_AT_ONCE, block=MAX_BLOCK_MS)
        entries = _entries(reply)
        if not entries:
            yield None
        for id_, fields in entries:
            entry = _read_entry(id_, fields)
            after = entry.id
            yield entry
            if isinstance(entry, Closed):
                return


def _entries(reply: Any) -> list[tuple[bytes, Mapping[bytes, bytes]]]:
    """The entries of one stream, whichever protocol version shaped the reply."""
    if not reply:
        return []
    [entries] = reply.values() if isinstance(reply, dict) else [entries for _, entries in reply]
    if entries and isinstance(entries[0], list) and entries[0] and isinstance(entries[0][0], list | tuple):
        entries = [entry for group in entries for entry in group]
    return list(entries)


async def has_more(client: AsyncClient, keys: Keys, rid: str, after: str) -> bool:
    """Whether there is an entry behind ``after`` now."""
    with redis_failures():
        found: Any = await client.xrange(keys.log(rid), f"({after}", "+", count=1)
    return bool(found)
