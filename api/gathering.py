"""The media of one request, from what the caller wrote to references and bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from api.incoming import Source
from api.sources import resolve
from api.tenants import Tenant
from api.uploads import Uploads, is_digest
from forebay.errors import Rejected
from forebay.media import digest_of
from forebay.task import MediaRef
from handoff.media import RedisStore

_OFF_LOOP_BYTES = 256 << 10  # hashing and writing more than this would hold up other requests


@dataclass(frozen=True, slots=True)
class Gathered:
    """One item. ``data`` is ``None`` where the store has the bytes already."""

    ref: MediaRef
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Gathering:
    """Resolves sources within the limits; see ``ApiSettings`` for those."""

    uploads: Uploads
    max_item_bytes: int
    max_request_bytes: int

    async def gather(self, sources: Sequence[Source], tenant: Tenant) -> list[Gathered]:
        """Every item of a request, in order.

        Raises:
            Rejected: a source is none, is too large, or names an upload that the tenant has not.
            Failed: Redis cannot be reached.
        """
        uploads = {one.param: await self._upload(one, tenant) for one in sources if is_digest(one.text)}
        inline = [one for one in sources if one.param not in uploads]
        total = sum(len(one.text) for one in inline)
        if total <= _OFF_LOOP_BYTES * 2:
            return self._within_limit(sources, uploads)
        return await asyncio.to_thread(self._within_limit, sources, uploads)

    def _within_limit(self, sources: Sequence[Source], uploads: dict[str, Gathered]) -> list[Gathered]:
        found: list[Gathered] = []
        taken = 0
        for source in sources:
            one = uploads.get(source.param) or self._inline(source)
            size = one.ref.size_bytes
            if taken + size > self.max_request_bytes:
                message = f"{source.param}: {size} bytes after {taken} of earlier items; the limit of a request is "
                message += str(self.max_request_bytes)
                raise Rejected("request_too_large", message, param=source.param, status=413)
            taken += size
            found.append(one)
        return found

    def _inline(self, source: Source) -> Gathered:
        data = resolve(source.text, source.param, self.max_item_bytes)
        return Gathered(MediaRef(source.modality, digest_of(data), len(data), source.param), data)

    async def _upload(self, source: Source, tenant: Tenant) -> Gathered:
        upload = await self.uploads.renew(tenant, source.text)
        if upload is None:
            message = f"{source.param}: no upload {source.text[:19]}…, or it has expired"
            raise Rejected("media_not_found", message, param=source.param, status=404)
        return Gathered(MediaRef(source.modality, upload.digest, upload.size_bytes, source.param), None)

    async def store_all(self, media: Sequence[Gathered]) -> None:
        """Put into the store what it has not.

        Raises:
            Failed: it is full, or cannot be reached.
        """
        store = self.uploads.store
        for one in media:
            if one.data is None:
                continue
            if isinstance(store, RedisStore) or len(one.data) > _OFF_LOOP_BYTES:
                await asyncio.to_thread(store.put, one.ref.digest, one.data)
            else:
                store.put(one.ref.digest, one.data)
