"""The quarantine: what no worker may run, kept for whoever wants to know why, and never without bound.

Two kinds of entries: a message that is not an intact task of ours, and media of a request that killed worker after
worker.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

from handoff.connection import AsyncClient, Client, redis_failures
from handoff.keys import Keys
from handoff.scripts import Argument, Move

MOST_ENTRIES = 1000
MOST_BYTES = 4 << 20  # of entries; a quarantine must not push anything out of a Redis that is nearly full
EXCERPT_BYTES = 4096  # of a message: more than most are long
_BYTES = b"#bytes"  # no reason has that name


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was set aside.

    Attributes:
        id: tells two alike apart.
        at_ms: when, by the clock of whoever set it aside.
        kind: a message, or media.
        reason: a short code, of which there are few.
        node: whose worker or janitor set it aside.
        digest: of the whole message, or of the media.
        detail: what exactly was wrong, in words.
        size_bytes: of the whole message.
        excerpt: the message's beginning, in base64; empty for media.
        rid: the request, where one is known.
    """

    id: str
    at_ms: int
    kind: Literal["message", "media"]
    reason: str
    node: str
    digest: str
    detail: str = ""
    size_bytes: int = 0
    excerpt: str = ""
    rid: str = ""

    @classmethod
    def of_message(cls, message: bytes, reason: str, detail: str, node: str, rid: str = "") -> Entry:
        digest = f"sha256:{hashlib.sha256(message).hexdigest()}"
        excerpt = base64.b64encode(message[:EXCERPT_BYTES]).decode()
        return cls(*_birth(), "message", reason, node, digest, detail[:500], len(message), excerpt, rid)

    @classmethod
    def of_media(cls, digest: str, reason: str, detail: str, node: str, rid: str) -> Entry:
        return cls(*_birth(), "media", reason, node, digest, detail[:500], rid=rid)

    @property
    def beginning(self) -> bytes:
        """The message, or as much of it as was kept."""
        return base64.b64decode(self.excerpt)

    def pack(self) -> bytes:
        return json.dumps({name: value for name, value in asdict(self).items() if value not in ("", 0)}).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> Entry:
        return cls(**json.loads(packed))


def _birth() -> tuple[str, int]:
    return secrets.token_hex(4), int(time.time() * 1000)


def set_aside(keys: Keys, entry: Entry) -> Move[int]:
    """Put an entry in quarantine."""
    return _move(keys, entry)


def set_aside_taken(keys: Keys, entry: Entry, taken_list: str, message: bytes) -> Move[int]:
    """The same for a message that a worker has in hand, and no longer has afterwards."""
    return _move(keys, entry, taken_list, message)


def _move(keys: Keys, entry: Entry, *taken: Argument) -> Move[int]:
    args = (keys.prefix, entry.pack(), entry.reason, MOST_ENTRIES, MOST_BYTES, *taken)
    return Move("quarantine", keys.quarantine, args, int)


def entries(client: Client, keys: Keys) -> list[Entry]:
    """All that is in quarantine, the newest first."""
    with redis_failures():
        packed: Any = client.lrange(keys.quarantine, 0, -1)
    return [Entry.unpack(one) for one in packed]


def clear(client: Client, keys: Keys) -> int:
    """Forget the entries, not how many there were. How many went."""
    with redis_failures():
        pipe = client.pipeline(transaction=True)
        pipe.llen(keys.quarantine)
        pipe.delete(keys.quarantine)
        pipe.hdel(keys.quarantined, _BYTES)
        gone, *_ = pipe.execute()
    return int(gone)


async def counts(client: AsyncClient, keys: Keys) -> dict[str, int]:
    """How many entries there have been, by reason."""
    with redis_failures():
        raw: Any = await client.hgetall(keys.quarantined)
    return {reason.decode(): int(count) for reason, count in raw.items() if reason != _BYTES}
