"""``POST /abort_request``: cancelling in SGLang's shape."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from api.columns import is_rid
from api.context import context_of
from api.intake import read_body
from api.routes.openapi import LOOK, abort_body, gives
from api.schema import read_json, read_known
from api.tenants import tenant_of
from handoff.connection import redis_failures, texts

router = APIRouter()


class AbortBody(BaseModel):
    """SGLang's body: one request, or all of them."""

    model_config = ConfigDict(strict=True, extra="ignore")

    rid: str | None = Field(None, description="The request to abort; an unknown one is no error.")
    abort_all: bool = Field(False, description="Abort every request of yours that is under way.")


@router.post(
    "/abort_request",
    response_class=Response,
    openapi_extra=abort_body(AbortBody),
    responses=gives(None, 400, 413, 415, *LOOK),
    summary="Cancel as SGLang does; answers nothing",
)
async def abort(request: Request) -> Response:
    context, tenant = context_of(request), tenant_of(request)
    raw = await read_body(request, context.settings.max_body_bytes)
    body = read_known(AbortBody, read_json(raw) if raw else {})
    if body.abort_all:
        with redis_failures():
            asked = texts(await context.redis.zrange(context.keys.asked(tenant.name), 0, -1))
        for rid in asked:
            await context.submission.cancel(rid)
    elif body.rid and is_rid(body.rid, context.settings.limits):  # any other text is no request's
        await context.submission.cancel(tenant.inside(body.rid))
    return Response(status_code=200)
