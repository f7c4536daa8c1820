"""Reading a response's bytes: decoded, counted as they come, and stopped where there are too many."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

from api.fetch.budget import Budget
from api.fetch.trouble import Trouble

_STEP = 256 << 10  # decoded bytes at a time: what a bomb can put into memory before it is counted
_GZIP = 16 + zlib.MAX_WBITS
_WINDOWS = {"": None, "identity": None, "gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


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
        Rejected: too many.
        Trouble: an encoding that nobody asked for, or damaged content.
    """
    if encoding not in _WINDOWS:
        raise Trouble(f"it is encoded as {encoding[:16]!r}, which nobody asked for")
    window = _WINDOWS[encoding]
    if announced is not None and window is None:
        budget.charge(param, announced, announced)
        budget.give_back(announced)
    found = bytearray()
    try:
        async for piece in chunks if window is None else _inflated(chunks, window):
            budget.charge(param, len(found) + len(piece), len(piece))
            found += piece
    except BaseException:
        budget.give_back(len(found))  # whoever tries again pays again
        raise
    return bytes(found)


async def _inflated(chunks: AsyncIterator[bytes], window: int) -> AsyncIterator[bytes]:
    """Decoded, a bounded piece at a time."""
    inflate = zlib.decompressobj(window)
    try:
        async for chunk in chunks:
            rest = chunk
            while rest:
                yield inflate.decompress(rest, _STEP)
                rest = inflate.unconsumed_tail
    except zlib.error as error:
        raise Trouble("its compressed content is damaged") from error
    if not inflate.eof:
        raise Trouble("its compressed content ends too early", is_passing=True)
