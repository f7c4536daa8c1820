"""What operators and clients ask of the process itself: health, readiness, metrics, models, processors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from api.context import context_of
from api.described import ModelList, NotReady, ProcessorList, Ready
from api.routes.openapi import LOOK, gives, gives_text
from api.routing import lacks, served_models
from api.tenants import tenant_of
from forebay.errors import Failed

router = APIRouter()


@router.get("/health", summary="The process lives")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/ready", responses={200: {"model": Ready}, 503: {"model": NotReady}}, summary="Work could be done now")
async def ready(request: Request) -> Response:
    """200 when Redis answers, and a node has workers, a pool, and an engine; otherwise 503 with the reason."""
    context = context_of(request)
    try:
        nodes = await context.register.nodes()
    except Failed as error:
        return JSONResponse({"status": "not ready", "reason": error.message}, 503)
    lacking = "the process is stopping" if request.app.state.draining else lacks(nodes, context.settings.ready_for)
    if lacking:
        return JSONResponse({"status": "not ready", "reason": lacking}, 503)
    return JSONResponse({"status": "ready", "models": sorted(served_models(nodes))})


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses=gives_text(403, 404, *LOOK),
    summary="Metrics in Prometheus' text format",
)
async def metrics(request: Request) -> Response:
    context = context_of(request)
    text = await context.metrics.render(context.redis, context.keys, context.register, context.replies)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@router.get("/v1/models", responses=gives(ModelList, *LOOK), summary="Models that are served")
async def models(request: Request) -> dict[str, Any]:
    nodes = await context_of(request).register.nodes()
    engines = {model for node in nodes for model in node.engines}
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "forebay", "engine": name in engines}
        for name in sorted(served_models(nodes))
    ]
    return {"object": "list", "data": data}


@router.get(
    "/v1/processors", responses=gives(ProcessorList, *LOOK), summary="Processors, their fingerprints and where they run"
)
async def processors(request: Request) -> dict[str, Any]:
    nodes = await context_of(request).register.nodes()
    data = [
        {
            "name": offer.model,
            "fingerprint": offer.fingerprint,
            "modalities": dict(offer.modalities),
            "extensions": offer.extensions,
            "node": node.name,
        }
        for node in nodes
        for offer in node.processors.values()
    ]
    is_operator = tenant_of(request).is_operator
    broken = [
        # The reason quotes a stranger's code, which may name files of the server.
        {"name": model, "node": node.name, "reason": reason if is_operator else "its package cannot be loaded"}
        for node in nodes
        for model, reason in node.broken.items()
    ]
    return {"object": "list", "data": data, "broken": broken}
