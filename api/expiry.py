"""Deadlines when no janitor is up: whoever waits for an answer is told in time, though every worker is away.

A janitor looks at a request just after its deadline. What it has not looked at for a while is looked at here; the end
is fenced by what was seen, so both may try.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from forebay.errors import Failed
from handoff.connection import AsyncClient, redis_failures, texts
from handoff.keys import Keys
from handoff.moves import End, Fence, Moves
from handoff.record import read_async
from handoff.scripts import perform_async

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_LATE_MS = 2_000  # janitors sweep every second
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Expiry:
    """Ends requests whose deadline has passed, for one API process."""

    redis: AsyncClient
    keys: Keys

    async def run(self) -> None:
        """Look every second, until cancelled. Redis may come and go."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.sweep()
            except Failed as error:
                log.warning("expiry interrupted", extra={"reason": error.message})

    async def sweep(self) -> int:
        """End what is overdue; how many were.

        Raises:
            Failed: Redis cannot be reached.
        """
        with redis_failures():
            seconds, micros = await self.redis.time()
            now_ms = seconds * 1000 + micros // 1000
            due = await self.redis.zrangebyscore(self.keys.due, "-inf", now_ms - _LATE_MS, start=0, num=_AT_ONCE)
        return sum([await self._end_if_overdue(rid, now_ms) for rid in texts(due)])

    async def _end_if_overdue(self, rid: str, now_ms: int) -> bool:
        found = await read_async(self.redis, self.keys, rid)
        if found is None or found.state.is_end or now_ms < found.deadline_ms:
            return False
        move = Moves(self.keys).finish(rid, Fence.seen(found.seen), End.expired())
        ended = (await perform_async(self.redis, move)).ok
        log.warning("expire", extra={"rid": rid, "state": str(found.state), "written": ended})
        return ended
