"""What needs no GPU: ``POST /v1/preprocess``, everything up to the park, described; and ``POST /v1/plan``, foretold."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.answers import result_of
from api.asking import count_answer, wait_for_end
from api.calls import in_parallel
from api.context import Context, context_of
from api.described import Plans, PreprocessedAll
from api.incoming import Incoming
from api.intake import unless_gone
from api.routes.generate import read
from api.routes.openapi import ASK, generate_body, gives
from forebay.task import Kind

router = APIRouter()


@router.post(
    "/v1/preprocess",
    openapi_extra=generate_body(),
    responses=gives(PreprocessedAll, *ASK),
    summary="Preprocess and describe the features",
)
async def preprocess(request: Request) -> Response:
    return await _answer(request, Kind.PREPROCESS)


@router.post(
    "/v1/plan",
    openapi_extra=generate_body(),
    responses=gives(Plans, *ASK),
    summary="What a request would become; nothing is decoded",
)
async def plan(request: Request) -> Response:
    return await _answer(request, Kind.PLAN)


async def _answer(request: Request, kind: Kind) -> Response:
    context, began = context_of(request), time.perf_counter()
    call = await read(request, context)
    if not call.is_batch:
        return JSONResponse(await unless_gone(request, _describe(context, call.only, kind, began)))

    async def one(incoming: Incoming) -> list[dict[str, Any]]:
        return [await _describe(context, incoming, kind, began)]

    each = await unless_gone(request, in_parallel(call.slots, one))
    return JSONResponse([answer for own in each for answer in own])


async def _describe(context: Context, incoming: Incoming, kind: Kind, began: float) -> dict[str, Any]:
    async with context.submission.watched(incoming, kind) as (submitted, watch):
        ended = await wait_for_end(context, watch, incoming)
        elapsed_s = count_answer(context, str(kind), submitted.model, ended, began)
        result = dict(result_of(ended))
        if kind is Kind.PLAN:
            settings = context.settings
            limits = {"item_bytes": settings.max_item_bytes, "request_bytes": settings.max_request_bytes}
            result["limits"] = {**result["limits"], **limits}
        else:
            await _fill_in(context, result)
        result["timings_ms"] = {**result["timings_ms"], "total": round(elapsed_s * 1000, 3)}
        return {"rid": submitted.rid, "model": submitted.model, **result}


async def _fill_in(context: Context, result: dict[str, Any]) -> None:
    """Replace the name of stored features by the features, in base64."""
    for item in result["items"]:
        stored = item["feature"].pop("stored", None)
        if stored:
            data = await asyncio.to_thread(context.store.get, stored)
            item["feature"]["base64"] = (await asyncio.to_thread(base64.b64encode, data)).decode()
