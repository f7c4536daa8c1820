"""Transfers that several prompts of one call wait for: each is made once, and given up with the last who waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from api.tasks import end

Name = tuple[str, str]
"""What is transferred, and its place in the body: an error names the place, so only the same one is shared."""


@dataclass(slots=True)
class Shared:
    """Transfers of one call. ``names`` are those that more than one prompt has; they are kept as long as the call."""

    names: Collection[Name] = ()
    _transfers: dict[Name, asyncio.Future[bytes]] = field(default_factory=dict)
    _waiting: Counter[Name] = field(default_factory=Counter)

    async def get(self, name: Name, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The bytes, which the first to ask begins to transfer, or why there are none.

        Raises:
            Rejected, Failed: what ``make`` raises, to everybody.
        """
        transfer = self._transfers.get(name)
        if transfer is None or transfer.cancelled():
            transfer = self._transfers[name] = asyncio.ensure_future(make())
        self._waiting[name] += 1
        try:
            return await asyncio.shield(transfer)
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name] and not transfer.done():
                del self._transfers[name]
                await end(transfer)
