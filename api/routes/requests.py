"""``/v1/requests``: send a request and come back for it, ask how it stands, cancel it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.answers import status
from api.calls import in_parallel
from api.context import Context, context_of
from api.incoming import Incoming
from api.routes.generate import read
from api.routes.openapi import generate_body
from forebay.errors import Rejected
from forebay.task import Kind
from handoff.record import Record, read_async

router = APIRouter()


@router.post("/v1/requests", status_code=202, openapi_extra=generate_body(), summary="Send a request, do not wait")
async def create(request: Request) -> Response:
    context = context_of(request)
    call = await read(request, context)
    if call.is_batch:
        each = await in_parallel(call.slots, lambda one: _create(context, one))
        return JSONResponse([answer for own in each for answer in own], 202)
    [body] = await _create(context, call.only)
    return JSONResponse(body, 202, {"Location": f"/v1/requests/{quote(body['rid'], safe='')}"})


async def _create(context: Context, incoming: Incoming) -> list[dict[str, Any]]:
    submitted = await context.submission.submit(incoming, Kind.GENERATE)
    body = {"rid": submitted.rid, "state": "queued", "model": submitted.model, "deadline_ms": submitted.deadline_ms}
    return [body]


@router.get("/v1/requests/{rid:path}", summary="How a request stands, or its result")
async def show(request: Request, rid: str) -> Response:
    return JSONResponse(status(await _found(request, rid)))


@router.delete("/v1/requests/{rid:path}", summary="Cancel a request; harmless once it has ended")
async def cancel(request: Request, rid: str) -> Response:
    await context_of(request).submission.cancel(rid)
    found = await _found(request, rid)
    return JSONResponse({"rid": rid, "state": str(found.state)})


async def _found(request: Request, rid: str) -> Record:
    request.state.rid = rid
    context = context_of(request)
    found = await read_async(context.redis, context.keys, rid)
    if found is None:
        raise Rejected("request_not_found", f"no request has the id {rid[:128]!r}", param="rid", status=404)
    return found
