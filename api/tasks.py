"""Ending tasks, for sure."""

from __future__ import annotations

import asyncio
from typing import Any

_ASK_AGAIN_S = 0.5  # long enough for what a cancelled request gives back


async def end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, and wait until they have ended; what they raise is not raised here.

    One cancellation is not enough: before Python 3.12 ``asyncio.wait_for``, through which redis-py sends every command,
    swallows one that comes just as the command has been sent.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_ASK_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)  # so that no exception goes unseen
