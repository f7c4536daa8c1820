"""Media that no worker decodes any more, because they have killed the children that did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from handoff.connection import Client, redis_failures
from handoff.keys import Keys

MOST_KILLS = 2
_MOST_DIGESTS = 1000
_KILLS_KEPT_S = 24 * 3600
_REFUSED_KEPT_S = 7 * 24 * 3600
_FRESH_S = 1.0


def note_kill(client: Client, keys: Keys, digest: str, life: str) -> bool:
    """Note that a child has died over an item; whether it was one too many, and the item is refused from now on.

    Deaths are told apart by the ``life`` that ended, so one that is noted twice, by a client that repeats, is one.
    """
    with redis_failures():
        pipe = client.pipeline(transaction=True)
        pipe.sadd(keys.kills(digest), life)
        pipe.scard(keys.kills(digest))
        pipe.expire(keys.kills(digest), _KILLS_KEPT_S)
        _, kills, _ = pipe.execute()
        if kills < MOST_KILLS:
            return False
        pipe.zadd(keys.refused, {digest: time.time()})
        pipe.zremrangebyrank(keys.refused, 0, -_MOST_DIGESTS - 1)
        pipe.expire(keys.refused, _REFUSED_KEPT_S)
        pipe.execute()
    return True


def pardon_all(client: Client, keys: Keys) -> int:
    """Refuse nothing any more, and forget who killed whom. How many were refused."""
    with redis_failures():
        kills = list(client.scan_iter(keys.kills("*"), count=1000))
        pipe = client.pipeline(transaction=True)
        pipe.zcard(keys.refused)
        pipe.delete(keys.refused, *kills)
        count, _ = pipe.execute()
    return int(count)


@dataclass(slots=True)
class Refused:
    """What is refused, as one process knows it: not older than a second when it is asked."""

    client: Client
    keys: Keys
    _known: frozenset[str] = frozenset()
    _read_at: float = field(default=-_FRESH_S)

    def among(self, digests: Sequence[str]) -> str:
        """The first that is refused; empty when none is."""
        now = time.monotonic()
        if now - self._read_at >= _FRESH_S:
            with redis_failures():
                found: Any = self.client.zrange(self.keys.refused, 0, -1)
            self._known = frozenset(one.decode() for one in found)
            self._read_at = now
        if not self._known:
            return ""
        return next((digest for digest in digests if digest in self._known), "")
