"""``/v1/media``: send media once, and refer to them by digest afterwards."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.context import context_of
from api.described import UploadTold
from api.intake import read_file
from api.reels import check_not_ours
from api.routes.openapi import LOOK, gives, upload_body
from api.tenants import tenant_of
from api.uploads import Upload, is_digest
from forebay.errors import Rejected

router = APIRouter()


@router.post(
    "/v1/media",
    status_code=201,
    openapi_extra=upload_body(),
    responses=gives(UploadTold, 400, 413, *LOOK, status=201),
    summary="Upload an item; refer to its id",
)
async def upload(request: Request) -> Response:
    context = context_of(request)
    data = await read_file(request, context.settings.max_item_bytes)
    check_not_ours(data, "file")
    kept = await context.uploads.put(tenant_of(request), data)
    return JSONResponse(kept.as_map(), 201, {"Location": f"/v1/media/{kept.digest}"})


@router.get(
    "/v1/media/{digest}", responses=gives(UploadTold, 404, *LOOK), summary="Size of an upload, and when it expires"
)
async def show(request: Request, digest: str) -> Response:
    return JSONResponse((await _find(request, digest)).as_map())


@router.head(
    "/v1/media/{digest}",
    response_class=Response,
    responses=gives(None, 404, *LOOK),
    summary="Whether an upload is there",
)
async def check(request: Request, digest: str) -> Response:
    await _find(request, digest)
    return Response(status_code=200)


@router.delete("/v1/media/{digest}", status_code=204, responses=gives(None, 404, *LOOK), summary="Forget an upload")
async def remove(request: Request, digest: str) -> Response:
    context = context_of(request)
    if not is_digest(digest) or not await context.uploads.remove(tenant_of(request), digest):
        raise _unknown(digest)
    return Response(status_code=204)


async def _find(request: Request, digest: str) -> Upload:
    context = context_of(request)
    found = await context.uploads.find(tenant_of(request), digest) if is_digest(digest) else None
    if found is None:
        raise _unknown(digest)
    return found


def _unknown(digest: str) -> Rejected:
    return Rejected("media_not_found", f"no upload {digest[:19]!r}, or it has expired", param="digest", status=404)
