"""``/v1/requests``: send a request and come back for it, ask how it stands, cancel it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from api.answers import status
from api.calls import in_parallel
from api.context import Context, context_of
from api.incoming import Incoming
from api.intake import read_body
from api.routes.generate import read
from api.routes.openapi import abort_body, generate_body
from api.schema import read_json, read_known
from forebay.errors import Rejected
from forebay.task import Kind
from handoff.connection import redis_failures, texts
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


class AbortBody(BaseModel):
    """SGLang's body: one request, or all of them."""

    model_config = ConfigDict(strict=True, extra="ignore")

    rid: str | None = Field(None, description="The request to abort; an unknown one is no error.")
    abort_all: bool = Field(False, description="Abort every request that is under way.")


@router.post("/abort_request", openapi_extra=abort_body(AbortBody), summary="Cancel as SGLang does; answers nothing")
async def abort(request: Request) -> Response:
    context = context_of(request)
    raw = await read_body(request, context.settings.max_body_bytes)
    body = read_known(AbortBody, read_json(raw) if raw else {})
    if body.abort_all:
        with redis_failures():
            live = texts(await context.redis.zrange(context.keys.due, 0, -1))
        for rid in live:
            await context.submission.cancel(rid)
    elif body.rid:
        await context.submission.cancel(body.rid)
    return Response(status_code=200)


async def _found(request: Request, rid: str) -> Record:
    request.state.rid = rid
    context = context_of(request)
    found = await read_async(context.redis, context.keys, rid)
    if found is None:
        raise Rejected("request_not_found", f"no request has the id {rid[:128]!r}", param="rid", status=404)
    return found
