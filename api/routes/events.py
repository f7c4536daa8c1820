"""``GET /v1/requests/{rid}/events``: follow a request, from its beginning or from where one was cut off."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from api.answers import status
from api.context import Context, context_of
from api.intake import unless_gone
from api.routes.found import find
from api.routes.generate import EventStream, sse
from api.routes.openapi import LOOK, gives_events, parameter
from api.routes.requests import show
from api.tenants import Tenant, tenant_of
from forebay.errors import Failed, Problem, Rejected
from forebay.states import State
from handoff.log import BEGINNING, Closed, Entry, Moved, Said, follow, has_more, is_entry_id
from handoff.record import Record, read_async

router = APIRouter()

SEEN = [
    parameter("Last-Event-ID", "header", "The last event that was seen", type="string"),
    parameter("after", "query", "The same, for those who cannot send a header", type="string"),
]
_LOOK_UP_EVERY = 5  # silences of about a second each


@router.get(
    "/v1/requests/{rid:path}/events",
    response_class=StreamingResponse,
    openapi_extra={"parameters": SEEN},
    responses={204: {"description": "All of it was seen"}, **gives_events(400, 404, 409, *LOOK)},
    summary="Follow a request: its states, its tokens, its end",
)
async def events(request: Request, rid: str) -> Response:
    if not request.scope["raw_path"].endswith(b"/events"):
        return await show(request, f"{rid}/events")  # the slash is the id's own: %2F
    context, tenant = context_of(request), tenant_of(request)
    found = await find(request, rid)
    if not found.has_log:
        message = f"request {rid[:128]!r} is answered where it was asked; only those of POST /v1/requests have events"
        raise Rejected("no_events", message, param="rid", status=409)
    seen = _seen(request)
    if found.state.is_end and seen and not await has_more(context.redis, context.keys, found.rid, seen):
        return Response(status_code=204)  # which tells an EventSource not to come back
    stream = _events(context, tenant, found, seen or BEGINNING)
    await unless_gone(request, anext(stream))  # so that an early error has its own status
    return EventStream(stream)


def _seen(request: Request) -> str | None:
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given and not is_entry_id(given):
        raise Rejected("invalid_request", f"Last-Event-ID {given[:48]!r} is no event of a request", param="after")
    return given or None


async def _events(context: Context, tenant: Tenant, found: Record, after: str) -> AsyncGenerator[bytes, None]:
    """Everything behind ``after``. What goes wrong once it has begun is its last event, and has no id to go on from."""
    with context.followers.one_more(tenant.name):
        yield b""
        try:
            async with aclosing(_told(context, tenant, found, after)) as told:
                async for part in told:
                    yield part
        except Failed as error:
            yield b"event: error\n" + sse(Problem.of(error).body(tenant.outside(found.rid)))


async def _told(context: Context, tenant: Tenant, found: Record, after: str) -> AsyncGenerator[bytes, None]:
    story, silences = Story(), 0
    async with aclosing(follow(context.followers.client, context.keys, found.rid, after)) as entries:
        async for entry in entries:
            if entry is None:
                silences += 1
                yield b": waiting\n\n"  # also finds out whether the caller is still there
                if silences % _LOOK_UP_EVERY or not await _is_over(context, found):
                    continue
                entry = Closed(after)
            elif isinstance(entry, Moved) and entry.state == State.ACCEPTED:
                await _now(context, found)  # the log may have become another request's, which begins like this
            after = entry.id
            told = story.tell(entry)
            if told is not None:
                yield _event(entry.id, *told)
            if isinstance(entry, Closed):
                yield _event(entry.id, "end", status(await _now(context, found), tenant.outside(found.rid)))
                return


async def _is_over(context: Context, found: Record) -> bool:
    """Whether the request has ended, or is another's by now, though its log does not say so."""
    now = await read_async(context.redis, context.keys, found.rid)
    return now is None or now.token != found.token or now.state.is_end


async def _now(context: Context, found: Record) -> Record:
    """How the request stands by now.

    Raises:
        Failed: its record is gone, or its id means another request.
    """
    now = await read_async(context.redis, context.keys, found.rid)
    if now is None or now.token != found.token:
        raise Failed("request_lost", "the request store no longer knows this request", status=503)
    return now


def _event(id_: str, kind: str, data: dict[str, Any]) -> bytes:
    return f"id: {id_}\nevent: {kind}\n".encode() + sse(data)


@dataclass(slots=True)
class Story:
    """What a follower is told of the entries: a piece that was written twice is told once."""

    _next: int = field(default=0)

    def tell(self, entry: Entry) -> tuple[str, dict[str, Any]] | None:
        """The kind and the data of an entry's event, if it has one of its own."""
        match entry:
            case Moved(state=state, attempt=attempt):
                self._next = 0
                return "state", {"state": state, "attempt": attempt, "at_ms": entry.at_ms}
            case Said(sequence=sequence, text=text, tokens=tokens, sample=sample) if sequence >= self._next:
                self._next = sequence + 1
                return "token", {"index": sample, "text": text, "tokens": tokens, "sequence": sequence}
            case _:
                return None
