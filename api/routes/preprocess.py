"""``POST /v1/preprocess``: everything up to the park, described. How anyone checks the tier without a GPU."""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.answers import result_of
from api.body import read_incoming
from api.context import Context, context_of
from api.intake import read_body, unless_gone
from api.routes.generate import count_answer, wait_for_end
from api.routes.openapi import generate_body
from forebay.task import Kind

router = APIRouter()


@router.post("/v1/preprocess", openapi_extra=generate_body(), summary="Preprocess and describe the features")
async def preprocess(request: Request) -> Response:
    context, began = context_of(request), time.perf_counter()
    incoming = read_incoming(await read_body(request, context.settings.max_body_bytes))
    request.state.rid = incoming.rid

    async def work() -> dict[str, Any]:
        async with context.submission.watched(incoming, Kind.PREPROCESS) as (submitted, watch):
            request.state.rid = submitted.rid
            ended = await wait_for_end(context, watch, incoming)
            elapsed_s = count_answer(context, "preprocess", submitted.model, ended, began)
            result = dict(result_of(ended))
            await _fill_in(context, result)
            result["timings_ms"] = {**result["timings_ms"], "total": round(elapsed_s * 1000, 3)}
            return {"rid": submitted.rid, "model": submitted.model, **result}

    return JSONResponse(await unless_gone(request, work()))


async def _fill_in(context: Context, result: dict[str, Any]) -> None:
    """Replace the name of stored features by the features, in base64."""
    for item in result["items"]:
        stored = item["feature"].pop("stored", None)
        if stored:
            data = await asyncio.to_thread(context.store.get, stored)
            item["feature"]["base64"] = (await asyncio.to_thread(base64.b64encode, data)).decode()
