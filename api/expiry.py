"""Deadlines when no janitor is up: whoever waits for an answer is told in time, though every worker is away.

A janitor does the same. Both end what is overdue in one step of Redis, so it is all the same who comes first.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from forebay.errors import Failed
from handoff.connection import AsyncClient
from handoff.keys import Keys
from handoff.moves import Moves
from handoff.scripts import perform_async

log = logging.getLogger(__name__)

_EVERY_S = 1.0
_MOST_STEPS = 100  # of a sweep: more than a deployment has live requests; what is left is ended a second later


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
        count = 0
        for _ in range(_MOST_STEPS):
            expired = await perform_async(self.redis, Moves(self.keys).expire())
            for rid, state in expired.ended:
                log.warning("expire", extra={"rid": rid, "state": state})
            count += len(expired.ended)
            if not expired.has_more:
                break
        return count
