"""``POST /generate``: the whole way, answered at once or as a stream, in SGLang's native shape."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from api.answers import EndedBadly, generation, partial, result_of
from api.body import Incoming, read_incoming
from api.context import Context, context_of
from api.intake import read_body, unless_gone
from api.replies import Ended, Piece, Watch
from api.routes.openapi import generate_body
from forebay.errors import Failed
from forebay.task import Kind

router = APIRouter()

T = TypeVar("T")

_GRACE_S = 10.0  # after the deadline, for the reconciler to write the end


@router.post("/generate", openapi_extra=generate_body(), summary="Preprocess, run the model, answer")
async def generate(request: Request) -> Response:
    context, began = context_of(request), time.perf_counter()
    incoming = read_incoming(await read_body(request, context.settings.max_body_bytes))
    request.state.rid = incoming.rid
    if incoming.stream:
        return await _stream(request, context, incoming, began)
    return JSONResponse(await unless_gone(request, _answer(request, context, incoming, began)))


async def _answer(request: Request, context: Context, incoming: Incoming, began: float) -> dict[str, Any]:
    async with context.submission.watched(incoming, Kind.GENERATE) as (submitted, watch):
        request.state.rid = submitted.rid
        ended = await wait_for_end(context, watch, incoming)
        elapsed_s = count_answer(context, "generate", submitted.model, ended, began)
        return generation(submitted.rid, result_of(ended), elapsed_s)


def count_answer(context: Context, route: str, model: str, ended: Ended, began: float) -> float:
    """Put an end into the metrics; the seconds it took."""
    elapsed_s = time.perf_counter() - began
    context.metrics.answered(route, model, ended.state, ended.problem.code if ended.problem else "ok", elapsed_s)
    return elapsed_s


async def wait_for_end(context: Context, watch: Watch, incoming: Incoming) -> Ended:
    """The end of a request.

    Raises:
        Failed: ``no_end``, when not even the deadline brought one.
    """
    return await _within(watch.end(), context, incoming)


async def _within(event: Awaitable[T], context: Context, incoming: Incoming) -> T:
    try:
        return await asyncio.wait_for(event, _patience_s(context, incoming))
    except TimeoutError as error:
        raise Failed("no_end", "the deadline passed and no end was recorded", status=504) from error


def _patience_s(context: Context, incoming: Incoming) -> float:
    return (incoming.timeout_ms or context.settings.timeout_ms) / 1000 + _GRACE_S


async def _stream(request: Request, context: Context, incoming: Incoming, began: float) -> Response:
    """Wait for the first event before the response begins, so that an early error has its own status."""
    events = _events(request, context, incoming, began)
    await unless_gone(request, anext(events))
    return EventStream(events)


class EventStream(StreamingResponse):
    """Server-sent events. When the response is over the request is left, also if the caller went before it began."""

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientDisconnect):  # nobody is left to be told
                await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()


async def _events(request: Request, context: Context, incoming: Incoming, began: float) -> AsyncGenerator[bytes, None]:
    """The answer as it grows, after one empty part that says that the first event is there."""
    async with context.submission.watched(incoming, Kind.GENERATE) as (submitted, watch):
        request.state.rid = submitted.rid
        event = await _within(watch.events.get(), context, incoming)
        if isinstance(event, Ended) and event.result is None:
            count_answer(context, "generate", submitted.model, event, began)
            result_of(event)  # a bad end before any token is an ordinary error
        yield b""
        answer = _Answer()
        while isinstance(event, Piece):
            if answer.take(event):
                yield _sse(partial(submitted.rid, answer.text, answer.tokens))
            event = await watch.events.get()
        elapsed_s = count_answer(context, "generate", submitted.model, event, began)
        yield _sse(_last(submitted.rid, event, elapsed_s))
        yield b"data: [DONE]\n\n"


def _last(rid: str, ended: Ended, elapsed_s: float) -> dict[str, Any]:
    try:
        return generation(rid, result_of(ended), elapsed_s)
    except EndedBadly as error:
        return error.problem.body(rid)


class _Answer:
    """The text so far. A new claim begins it anew, a piece seen before changes nothing."""

    def __init__(self) -> None:
        self.text, self.tokens = "", 0
        self._claim, self._next = "", 0

    def take(self, piece: Piece) -> bool:
        if piece.claim != self._claim:
            self.text, self.tokens = "", 0
            self._claim, self._next = piece.claim, 0
        if piece.sequence < self._next:
            return False
        self._next = piece.sequence + 1
        self.text += piece.text
        self.tokens += piece.tokens
        return True


def _sse(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
