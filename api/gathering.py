"""The media of one request, from what the caller wrote to references and bytes.

First what the body itself has, then, once the request is accepted, what must be fetched: whoever cancels it ends that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from api.fetch.budget import Budget
from api.fetch.fetcher import Fetcher
from api.fetch.files import read_file
from api.fetch.shared import Shared
from api.incoming import Source
from api.ready_made import check_allowed, packed
from api.reels import check_not_ours
from api.sources import resolve as resolve_inline
from api.sources import scheme_of
from api.tasks import end
from api.tenants import Tenant
from api.uploads import Uploads, is_digest
from forebay.errors import Rejected
from forebay.media import digest_of
from forebay.task import MediaRef
from handoff.media import RedisStore
from handoff.reel import Reel

_OFF_LOOP_BYTES = 256 << 10  # hashing and writing more than this would hold up other requests


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
    shared: Shared = field(default_factory=Shared)
    feature_limit: int = 0
    """Bytes of a feature that comes instead of media; 0 takes none."""
    _found: dict[str, Gathered] = field(default_factory=dict)

    @property
    def has_all(self) -> bool:
        """Whether nothing is left to fetch."""
        return all(one.param in self._found for one in self._leaves)

    @property
    def _leaves(self) -> list[Source]:
        """Everything that has bytes of its own: items, and the frames of those that are lists."""
        return [leaf for one in self.sources for leaf in one.leaves]

    @property
    def items(self) -> list[Gathered]:
        """What there is, in the caller's order; a list of frames once it is stored."""
        return [self._found[one.param] for one in self.sources if one.param in self._found]

    @property
    def size_bytes(self) -> int:
        return sum(self._found[one.param].ref.size_bytes for one in self._leaves if one.param in self._found)

    async def begin(self, tenant: Tenant) -> None:
        """Find what the body has, and uploads.

        Raises:
            Rejected: a source is none, is too large, or names an upload that the tenant has not.
            Failed: Redis cannot be reached.
        """
        for one in self._leaves:
            if one.sent is not None:
                check_allowed(one, self.feature_limit)
            elif is_digest(one.text):
                self._found[one.param] = await self._upload(one, tenant)
        inline = [one for one in self._leaves if one.param not in self._found and not one.is_elsewhere]
        if sum(len(one.text) for one in inline) <= _OFF_LOOP_BYTES * 2:
            self._take_inline(inline)
        else:
            await asyncio.to_thread(self._take_inline, inline)
        self._check_lists()

    def _check_lists(self) -> None:
        """Refuse a list of frames that together are more than an item may be."""
        for one in self.sources:
            size = sum(self._found[leaf.param].ref.size_bytes for leaf in one.frames if leaf.param in self._found)
            if size > self.budget.item_limit:
                message = f"{one.param}: its frames are at least {size} bytes; the limit is {self.budget.item_limit}"
                raise Rejected("media_too_large", message, param=one.param, status=413)

    def _take_inline(self, sources: Sequence[Source]) -> None:
        for one in sources:
            if one.sent is not None:
                found = _gathered(one, packed(one, self.feature_limit))
            else:
                found = _leaf(one, resolve_inline(one.text, one.param, self.budget.item_limit))
            self.budget.charge(one.param, found.ref.size_bytes, found.ref.size_bytes)
            self._found[one.param] = found

    async def _upload(self, source: Source, tenant: Tenant) -> Gathered:
        upload = await self.uploads.renew(tenant, source.text)
        if upload is None:
            message = f"{source.param}: no upload {source.text[:19]}…, or it has expired"
            raise Rejected("media_not_found", message, param=source.param, status=404)
        self.budget.charge(source.param, upload.size_bytes, upload.size_bytes)
        return Gathered(MediaRef(source.modality, upload.digest, upload.size_bytes, source.param), None)

    async def fetch_rest(self, left_s: float) -> None:
        """Fetch what is elsewhere, side by side, and each of it once. The first that fails ends the others.

        Raises:
            Rejected: it is not there, blocked, or too large.
            Failed: whoever has it does not answer.
        """
        rest: dict[str, list[Source]] = {}
        for leaf in self._leaves:
            if leaf.param not in self._found:
                rest.setdefault(leaf.text, []).append(leaf)
        tasks = [asyncio.ensure_future(self._fetch_for(alike, left_s)) for alike in rest.values()]
        try:
            for one in asyncio.as_completed(tasks):
                await one
                self._check_lists()
        finally:
            await end(*tasks)

    async def _fetch_for(self, alike: Sequence[Source], left_s: float) -> None:
        """Fetch what several places name. Each counts: a list of frames has a copy of its own of every frame."""
        await self._fetch(alike[0], left_s)
        got = self._found[alike[0].param]
        for one in alike[1:]:
            self.budget.charge(one.param, got.ref.size_bytes, got.ref.size_bytes)
            self._found[one.param] = Gathered(replace(got.ref, modality=one.modality, param=one.param), got.data)

    async def _fetch(self, source: Source, left_s: float) -> None:
        data = await self._shared_bytes(source, left_s)
        if not data:
            raise Rejected("empty_media", f"{source.param} is empty", param=source.param)
        self._found[source.param] = await asyncio.to_thread(_leaf, source, data)

    async def _shared_bytes(self, source: Source, left_s: float) -> bytes:
        """What a source names; what several prompts of a call name at the same place is transferred once.

        Under a budget of its own then, and each prompt is charged when it is there: one may have no room for it.
        """
        name = source.text, source.param
        if name not in self.shared.names:
            return await self._bytes(source, left_s, self.budget)
        alone = Budget(self.budget.item_limit, self.budget.item_limit)
        data = await self.shared.get(name, lambda: self._bytes(source, left_s, alone))
        self.budget.charge(source.param, len(data), len(data))
        return data

    async def _bytes(self, source: Source, left_s: float, budget: Budget) -> bytes:
        if scheme_of(source.text) == "file":
            return await asyncio.to_thread(read_file, source.text, source.param, self.file_roots, budget)
        return await self.fetcher.fetch(source.text, source.param, budget, left_s)

    async def store_all(self) -> None:
        """Put into the store what it has not.

        Raises:
            Failed: it is full, or cannot be reached.
        """
        for source in self.sources:
            if source.frames:  # one at a time, and not kept: it is a copy of what its frames are
                joined = await asyncio.to_thread(self._join, source)
                await self._store(joined)
                self._found[source.param] = replace(joined, data=None)
        for one in self.items:
            await self._store(one)

    async def _store(self, one: Gathered) -> None:
        store = self.uploads.store
        if one.data is None:
            return
        if isinstance(store, RedisStore) or len(one.data) > _OFF_LOOP_BYTES:
            await asyncio.to_thread(store.put, one.ref.digest, one.data)
        else:
            store.put(one.ref.digest, one.data)

    def _join(self, source: Source) -> Gathered:
        """The one item that a list of frames is."""
        found = [self._found[leaf.param] for leaf in source.frames]
        store = self.uploads.store
        files = tuple(store.get(one.ref.digest) if one.data is None else one.data for one in found)
        return _gathered(source, Reel(files, source.fps).pack())


def _leaf(source: Source, data: bytes) -> Gathered:
    """What a caller has sent, or somebody else has: never a list of frames that we have not joined."""
    check_not_ours(data, source.param)
    return _gathered(source, data)


def _gathered(source: Source, data: bytes) -> Gathered:
    return Gathered(MediaRef(source.modality, digest_of(data), len(data), source.param), data)
