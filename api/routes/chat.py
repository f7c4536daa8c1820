"""``POST /v1/chat/completions``: a conversation with media, as OpenAI's clients send it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.answers import EndedBadly
from api.asking import answers, growing
from api.chat_answers import ChatAnswer
from api.chat_body import ChatCall, read_chat
from api.context import Context, context_of
from api.described import ChatCompletion
from api.incoming import Incoming
from api.intake import read_body, unless_gone
from api.routes.generate import DONE, EventStream, sse
from api.routes.openapi import ASK, chat_body, gives
from api.routing import choose_model
from api.tenants import tenant_of
from forebay.errors import Failed, Problem

router = APIRouter()


@router.post(
    "/v1/chat/completions",
    openapi_extra=chat_body(),
    responses=gives(ChatCompletion, *ASK, stream=True),
    summary="A conversation, in OpenAI's shape",
)
async def chat(request: Request) -> Response:
    context, began = context_of(request), time.perf_counter()
    raw = await read_body(request, context.settings.max_body_bytes)
    asked = read_chat(raw, context.settings.limits)
    call = asked.call.of(tenant_of(request))
    incoming = call.only
    request.state.rid = incoming.rid
    model = choose_model(incoming.model, await context.register.nodes())
    answer = ChatAnswer(incoming.rid or "", model)
    if call.stream:
        events = _events(context, asked, incoming, answer)
        await unless_gone(request, anext(events))  # so that an early error has its own status
        return EventStream(events)
    whole = await unless_gone(request, answers(context, incoming, began))
    return JSONResponse(answer.whole(whole))


async def _events(
    context: Context, asked: ChatCall, incoming: Incoming, answer: ChatAnswer
) -> AsyncGenerator[bytes, None]:
    is_open = False
    last: dict[int, dict[str, Any]] = {}
    async with aclosing(growing(context, incoming, time.perf_counter())) as events:
        try:
            async for event in events:
                if event is None:
                    is_open = True
                    yield b""
                    continue
                number, grown = event
                last[number] = grown
                for chunk in answer.chunks(number, grown):
                    yield sse(chunk)
            if asked.include_usage:
                yield sse(answer.counts([last[number] for number in sorted(last)]))
        except (EndedBadly, Failed) as error:
            if not is_open:
                raise
            problem = error.problem if isinstance(error, EndedBadly) else Problem.of(error)
            yield sse(problem.body(incoming.rid))
    yield DONE
