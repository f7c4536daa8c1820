"""``/v1/requests``: send a request and come back for it, ask how it stands, list them, cancel it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.answers import brief, status
from api.calls import in_parallel
from api.context import Context, context_of
from api.described import AcceptedAll, Cancelled, RequestList, RequestTold
from api.incoming import Incoming
from api.listing import DEFAULT, MOST, STATES, read_listing
from api.routes.found import find
from api.routes.generate import read
from api.routes.openapi import ASK, LOOK, generate_body, gives, parameter
from api.tenants import tenant_of
from forebay.task import Kind
from handoff.history import Mark, page
from handoff.record import position_of

router = APIRouter()

LISTING = [
    parameter("state", "query", "One state, or live, or ended", type="string", enum=[*STATES]),
    parameter("model", "query", "Of one model alone", type="string"),
    parameter("limit", "query", "How many at most", type="integer", minimum=1, maximum=MOST, default=DEFAULT),
    parameter("cursor", "query", "The next of the page before", type="string"),
]


@router.post(
    "/v1/requests",
    status_code=202,
    openapi_extra=generate_body(),
    responses=gives(AcceptedAll, *ASK, status=202),
    summary="Send a request, do not wait",
)
async def create(request: Request) -> Response:
    context = context_of(request)
    call = await read(request, context)
    if call.is_batch:
        each = await in_parallel(call.slots, lambda one: _create(context, one))
        return JSONResponse([answer for own in each for answer in own], 202)
    [body] = await _create(context, call.only)
    return JSONResponse(body, 202, {"Location": f"/v1/requests/{quote(body['rid'], safe='')}"})


async def _create(context: Context, incoming: Incoming) -> list[dict[str, Any]]:
    sent = await context.submission.submit(incoming, Kind.GENERATE)
    return [{"rid": sent.rid, "state": sent.state, "model": sent.model, "deadline_ms": sent.deadline_ms}]


@router.get(
    "/v1/requests",
    openapi_extra={"parameters": LISTING},
    responses=gives(RequestList, 400, *LOOK),
    summary="The requests of late, newest first",
)
async def listed(request: Request) -> Response:
    context, tenant = context_of(request), tenant_of(request)
    asked = read_listing(request.query_params)
    after = None if asked.after is None else Mark(asked.after.at_ms, tenant.inside(asked.after.rid))
    found, mark = await page(context.redis, context.keys, tenant.name, asked.wants, asked.limit, after)
    data = [brief(one, tenant.outside(one.rid)) for one in found]
    return JSONResponse({"data": data, "next": None if mark is None else f"{mark.at_ms}.{tenant.outside(mark.rid)}"})


@router.get(
    "/v1/requests/{rid:path}", responses=gives(RequestTold, 404, *LOOK), summary="How a request stands, or its result"
)
async def show(request: Request, rid: str) -> Response:
    context = context_of(request)
    found = await find(request, rid)
    return JSONResponse(status(found, rid, await position_of(context.redis, context.keys, found)))


@router.delete(
    "/v1/requests/{rid:path}",
    responses=gives(Cancelled, 404, *LOOK),
    summary="Cancel a request; harmless once it has ended",
)
async def cancel(request: Request, rid: str) -> Response:
    await context_of(request).submission.cancel(tenant_of(request).inside(rid))
    found = await find(request, rid)
    return JSONResponse({"rid": rid, "state": str(found.state)})
