"""Reading a request's body, and noticing that its sender has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from api.tasks import end
from forebay.errors import Rejected

T = TypeVar("T")

_FORM_BYTES = 64 << 10  # boundaries, headers and small fields around the file of a form
_FORM_FIELDS = 16


class ClientGoneError(Exception):
    """The caller closed the connection; there is nobody to answer."""


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """The whole body of a JSON request.

    Raises:
        Rejected: not JSON by its content type, or larger than the limit.
        ClientGoneError: the caller left before all of it had come.
    """
    kind = _content_type(request, "application/json")
    if kind != "application/json":
        message = f"content-type must be application/json, got {kind[:64]!r}"
        raise Rejected("unsupported_content_type", message, status=415)
    return b"".join([chunk async for chunk in _chunks(request, limit_bytes, "body_too_large")])


async def read_file(request: Request, limit_bytes: int) -> bytes:
    """The bytes that a caller uploads: the body itself, or the one file of a form.

    Raises:
        Rejected: nothing, more than one file, no form although it says so, or larger than the limit.
        ClientGoneError: the caller left before all of it had come.
    """
    is_form = _content_type(request, "") == "multipart/form-data"
    most = limit_bytes + (_FORM_BYTES if is_form else 0)
    chunks = _chunks(request, most, "media_too_large")
    data = await _file_of_form(request, chunks) if is_form else b"".join([chunk async for chunk in chunks])
    if not data:
        raise Rejected("empty_media", "the upload is empty", param="file")
    if len(data) > limit_bytes:
        raise _too_large("media_too_large", len(data), limit_bytes)
    return data


async def _file_of_form(request: Request, chunks: AsyncGenerator[bytes, None]) -> bytes:
    try:
        form = await MultiPartParser(request.headers, chunks, max_files=1, max_fields=_FORM_FIELDS).parse()
    except MultiPartException as error:
        raise Rejected("invalid_form", f"multipart/form-data: {error.message}") from error
    async with _parts_of(form) as parts:
        files = [part for part in parts if isinstance(part, UploadFile)]
        if len(files) != 1:
            raise Rejected("invalid_form", f"a form with one file was expected, got {len(files)} files")
        return await files[0].read()


@asynccontextmanager
async def _parts_of(form: FormData) -> AsyncIterator[list[Any]]:
    """The parts of a form; what it has put on disk is gone afterwards."""
    try:
        yield [value for _, value in form.multi_items()]
    finally:
        await form.close()


def _content_type(request: Request, default: str) -> str:
    return request.headers.get("content-type", default).partition(";")[0].strip().lower()


async def _chunks(request: Request, limit_bytes: int, code: str) -> AsyncGenerator[bytes, None]:
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(code, int(announced), limit_bytes)
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(code, size, limit_bytes)
            yield chunk
    except ClientDisconnect as error:
        raise ClientGoneError from error


def _too_large(code: str, size: int, limit: int) -> Rejected:
    return Rejected(code, f"the body is at least {size} bytes; the limit is {limit}", status=413)


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
