"""Reading a request's body, and noticing that its sender has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from api.tasks import end
from forebay.errors import Rejected

T = TypeVar("T")


class ClientGoneError(Exception):
    """The caller closed the connection; there is nobody to answer."""


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body.

    Raises:
        Rejected: not JSON by its content type, or larger than the limit.
        ClientGoneError: the caller left before all of it had come.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"content-type must be application/json, got {kind[:64]!r}"
        raise Rejected("unsupported_content_type", message, status=415)
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(int(announced), limit_bytes)
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(size, limit_bytes)
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise ClientGoneError from error
    return b"".join(chunks)


def _too_large(size: int, limit: int) -> Rejected:
    return Rejected("body_too_large", f"the body is at least {size} bytes; the limit is {limit}", status=413)


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Await ``work``, and cancel it when the caller closes the connection.

    Raises:
        ClientGoneError: the caller has gone.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        await end(working, leaving)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
