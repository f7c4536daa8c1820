"""``POST /generate``: the whole way, answered at once or as a stream, in SGLang's native shape."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from api.answers import EndedBadly, one_or_all
from api.asking import answers, growing
from api.body import read_call
from api.calls import answer_all, grow_all
from api.context import Context, context_of
from api.described import Generations
from api.incoming import Call, Incoming
from api.intake import read_body, unless_gone
from api.routes.openapi import ASK, generate_body, gives
from api.tenants import tenant_of

router = APIRouter()

DONE = b"data: [DONE]\n\n"
"""The last event of every stream."""


@router.post(
    "/generate",
    openapi_extra=generate_body(),
    responses=gives(Generations, *ASK, stream=True),
    summary="Preprocess, run the model, answer",
)
async def generate(request: Request) -> Response:
    context = context_of(request)
    call = await read(request, context)
    if call.stream:
        events = _batch_events(context, call) if call.is_batch else _events(context, call.only)
        await unless_gone(request, anext(events))  # so that an early error has its own status
        return EventStream(events)
    if call.is_batch:
        return JSONResponse(await unless_gone(request, answer_all(context, call)))
    whole = answers(context, call.only, time.perf_counter())
    return JSONResponse(one_or_all(await unless_gone(request, whole)))


async def read(request: Request, context: Context) -> Call:
    """The call that a body makes; of a single request the id is noted, for errors.

    Raises:
        Rejected: naming what is wrong.
    """
    raw = await read_body(request, context.settings.max_body_bytes)
    call = read_call(raw, context.settings.limits).of(tenant_of(request))
    if not call.is_batch:
        request.state.rid = call.only.rid
    return call


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


async def _events(context: Context, incoming: Incoming) -> AsyncGenerator[bytes, None]:
    """The answer as it grows, after one empty part that says that the first event is there."""
    began, is_open = time.perf_counter(), False
    async with aclosing(growing(context, incoming, began)) as events:
        try:
            async for event in events:
                if event is None:
                    is_open = True
                    yield b""
                    continue
                sample, answer = event
                yield sse(answer if incoming.samples == 1 else {**answer, "index": sample})
        except EndedBadly as error:
            if not is_open:
                raise
            yield sse(error.problem.body(incoming.rid))
    yield DONE


async def _batch_events(context: Context, call: Call) -> AsyncGenerator[bytes, None]:
    yield b""
    async with aclosing(grow_all(context, call)) as events:
        async for event in events:
            yield sse(event)
    yield DONE


def sse(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
