"""The media of one request, from what the caller wrote to references and bytes.

First what the body itself has, then, once the request is accepted, what must be fetched: whoever cancels it ends that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from api.fetch.budget import Budget
from api.fetch.fetcher import Fetcher
from api.fetch.files import read_file
from api.incoming import Source
from api.sources import resolve as resolve_inline
from api.sources import scheme_of
from api.tasks import end
from api.tenants import Tenant
from api.uploads import Uploads, is_digest
from forebay.errors import Rejected
from forebay.media import digest_of
from forebay.task import MediaRef
from handoff.media import RedisStore

_OFF_LOOP_BYTES = 256 << 10  # hashing and writing more than this would hold up other requests
_FETCHED = ("http", "https", "file")


@dataclass(frozen=True, slots=True)
class Gathered:
    """One item. ``data`` is ``None`` where the store has the bytes already."""

    ref: MediaRef
    data: bytes | None


@dataclass(slots=True)
class Gathering:
    """Gathers the media of one request, within its limits."""

    uploads: Uploads
    fetcher: Fetcher
    file_roots: Sequence[Path]
    budget: Budget
    sources: Sequence[Source] = ()
    _found: dict[str, Gathered] = field(default_factory=dict)

    @property
    def has_all(self) -> bool:
        """Whether nothing is left to fetch."""
        return len(self._found) == len(self.sources)

    @property
    def items(self) -> list[Gathered]:
        """What there is, in the caller's order."""
        return [self._found[one.param] for one in self.sources if one.param in self._found]

    @property
    def size_bytes(self) -> int:
        return sum(one.ref.size_bytes for one in self._found.values())

    async def begin(self, tenant: Tenant) -> None:
        """Find what the body has, and uploads.

        Raises:
            Rejected: a source is none, is too large, or names an upload that the tenant has not.
            Failed: Redis cannot be reached.
        """
        for one in self.sources:
            if is_digest(one.text):
                self._found[one.param] = await self._upload(one, tenant)
        inline = [one for one in self.sources if not is_digest(one.text) and scheme_of(one.text) not in _FETCHED]
        if sum(len(one.text) for one in inline) <= _OFF_LOOP_BYTES * 2:
            self._take_inline(inline)
        else:
            await asyncio.to_thread(self._take_inline, inline)

    def _take_inline(self, sources: Sequence[Source]) -> None:
        for one in sources:
            data = resolve_inline(one.text, one.param, self.budget.item_limit)
            self.budget.charge(one.param, len(data), len(data))
            self._found[one.param] = _gathered(one, data)

    async def _upload(self, source: Source, tenant: Tenant) -> Gathered:
        upload = await self.uploads.renew(tenant, source.text)
        if upload is None:
            message = f"{source.param}: no upload {source.text[:19]}…, or it has expired"
            raise Rejected("media_not_found", message, param=source.param, status=404)
        self.budget.charge(source.param, upload.size_bytes, upload.size_bytes)
        return Gathered(MediaRef(source.modality, upload.digest, upload.size_bytes, source.param), None)

    async def fetch_rest(self, left_s: float) -> None:
        """Fetch what is elsewhere, side by side. The first that fails ends the others.

        Raises:
            Rejected: it is not there, blocked, or too large.
            Failed: whoever has it does not answer.
        """
        rest = [one for one in self.sources if one.param not in self._found]
        tasks = [asyncio.ensure_future(self._fetch(one, left_s)) for one in rest]
        try:
            for one in asyncio.as_completed(tasks):
                await one
        finally:
            await end(*tasks)

    async def _fetch(self, source: Source, left_s: float) -> None:
        if scheme_of(source.text) == "file":
            data = await asyncio.to_thread(read_file, source.text, source.param, self.file_roots, self.budget)
        else:
            data = await self.fetcher.fetch(source.text, source.param, self.budget, left_s)
        if not data:
            raise Rejected("empty_media", f"{source.param} is empty", param=source.param)
        self._found[source.param] = await asyncio.to_thread(_gathered, source, data)

    async def store_all(self) -> None:
        """Put into the store what it has not.

        Raises:
            Failed: it is full, or cannot be reached.
        """
        store = self.uploads.store
        for one in self.items:
            if one.data is None:
                continue
            if isinstance(store, RedisStore) or len(one.data) > _OFF_LOOP_BYTES:
                await asyncio.to_thread(store.put, one.ref.digest, one.data)
            else:
                store.put(one.ref.digest, one.data)


def _gathered(source: Source, data: bytes) -> Gathered:
    return Gathered(MediaRef(source.modality, digest_of(data), len(data), source.param), data)
