"""Media that a tenant sends once and refers to by digest: ``sha256:…``.

The bytes lie in the media store, as those of requests do. That a tenant may refer to them is kept beside, in Redis:
whoever only knows a digest has nothing.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Any

from api.tenants import Tenant
from forebay.media import digest_of
from handoff.connection import AsyncClient, redis_failures
from handoff.keys import Keys
from handoff.media import TTL_S, MediaStore

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def is_digest(text: str) -> bool:
    """Whether a source names an upload; base64 has no colon."""
    return _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Upload:
    """What a tenant may refer to: by which digest, how large, until when (Unix time, ms)."""

    digest: str
    size_bytes: int
    expires_ms: int

    def as_map(self) -> dict[str, Any]:
        return {"id": self.digest, "bytes": self.size_bytes, "expires_ms": self.expires_ms}


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads of every tenant."""

    redis: AsyncClient
    keys: Keys
    store: MediaStore

    async def put(self, tenant: Tenant, data: bytes) -> Upload:
        """Keep bytes for a tenant; sent again, they live longer.

        Raises:
            Failed: the store is full, or cannot be reached.
        """
        digest = await asyncio.to_thread(digest_of, data)
        await asyncio.to_thread(self.store.put, digest, data)
        expires_ms = int((time.time() + TTL_S) * 1000)
        with redis_failures():
            await self.redis.set(self.keys.upload(tenant.name, digest), len(data), ex=TTL_S)
        return Upload(digest, len(data), expires_ms)

    async def find(self, tenant: Tenant, digest: str) -> Upload | None:
        """A tenant's upload; ``None`` when it has none of that digest, or no longer."""
        key = self.keys.upload(tenant.name, digest)
        with redis_failures():
            size: Any = await self.redis.get(key)
            left_ms: Any = await self.redis.pttl(key)
        if size is None or left_ms <= 0:
            return None
        return Upload(digest, int(size), int(time.time() * 1000) + left_ms)

    async def renew(self, tenant: Tenant, digest: str) -> Upload | None:
        """As ``find``, and its time begins anew, so that it outlives the request that refers to it."""
        found = await self.find(tenant, digest)
        if found is None or not await asyncio.to_thread(self.store.renew, digest, found.size_bytes):
            return None
        with redis_failures():
            await self.redis.expire(self.keys.upload(tenant.name, digest), TTL_S)
        return found

    async def remove(self, tenant: Tenant, digest: str) -> bool:
        """Nobody may refer to it any more. The bytes go with their time: a request may be under way to them."""
        with redis_failures():
            return bool(await self.redis.delete(self.keys.upload(tenant.name, digest)))
