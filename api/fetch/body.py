"""Reading a response's bytes: decoded, counted as they come, and stopped where there are too many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from api.fetch.budget import Budget
from api.fetch.inflate import Inflater, coding_of

_SPARE = 1024  # of a coded content, with a 256th: by so much can coding make it longer, with a gzip header


async def read_body(
    chunks: AsyncIterator[bytes], encoding: str, announced: int | None, budget: Budget, param: str
) -> bytes:
    """The bytes of an item.

    Args:
        chunks: as they come from the wire.
        encoding: of the content, as the response says.
        announced: its ``Content-Length``, which is believed only when it says too much.
        budget: that they are charged to.
        param: which item it is.

    Raises:
        Rejected: too many, decoded or not.
        Trouble: an encoding that nobody asked for, or damaged content.
    """
    coding = coding_of(encoding)
    spare = (budget.item_limit >> 8) + _SPARE if coding else 0
    if announced is not None:
        budget.check(param, announced - spare, 0 if coding else announced)
    pieces = _decoded(chunks, Inflater(coding), budget, param, spare) if coding else chunks
    found = bytearray()
    try:
        async for piece in pieces:
            budget.charge(param, len(found) + len(piece), len(piece))
            found += piece
    except BaseException:
        budget.give_back(len(found))  # whoever tries again pays again
        raise
    return bytes(found)


async def _decoded(
    chunks: AsyncIterator[bytes], inflater: Inflater, budget: Budget, param: str, spare: int
) -> AsyncIterator[bytes]:
    came = 0
    async for chunk in chunks:
        came += len(chunk)
        budget.check(param, came - spare)  # a stream of empty blocks has no end, and decodes to nothing
        for piece in inflater.feed(chunk):
            yield piece
            await asyncio.sleep(0)  # a chunk may decode to a thousand times itself, and others have requests too
    for piece in inflater.end():
        yield piece
