"""The request that a path names, as its tenant may see it."""

from __future__ import annotations

from fastapi import Request

from api.context import context_of
from api.tenants import tenant_of
from forebay.errors import Rejected
from handoff.record import Record, read_async


async def find(request: Request, rid: str) -> Record:
    """The record of one of the caller's own requests.

    Raises:
        Rejected: ``request_not_found``; also for a request of somebody else's.
        Failed: Redis cannot be reached.
    """
    request.state.rid = rid
    context = context_of(request)
    found = await read_async(context.redis, context.keys, tenant_of(request).inside(rid))
    if found is None:
        raise Rejected("request_not_found", f"no request has the id {rid[:128]!r}", param="rid", status=404)
    return found
