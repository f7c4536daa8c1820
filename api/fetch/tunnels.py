"""Connections through a proxy that are closed when they fail.

The library keeps a tunnel whose TLS handshake failed as one that is in use, for ever: so many of them as there may be
connections, and nothing is fetched any more.
"""

from __future__ import annotations

import httpcore


class ProxyPool(httpcore.AsyncHTTPProxy):
    """The library's, with connections of ours around its own."""

    def create_connection(self, origin: httpcore.Origin) -> httpcore.AsyncConnectionInterface:
        """One to an origin."""
        return _Closed(super().create_connection(origin))


class _Closed(httpcore.AsyncConnectionInterface):
    """A connection that is closed with the first request that fails on it."""

    def __init__(self, inner: httpcore.AsyncConnectionInterface) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        try:
            return await self._inner.handle_async_request(request)
        except httpcore.ConnectionNotAvailable:  # it is somebody else's, and the pool finds another
            raise
        except BaseException:
            await self._inner.aclose()
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def info(self) -> str:
        return self._inner.info()

    def can_handle_request(self, origin: httpcore.Origin) -> bool:
        return self._inner.can_handle_request(origin)

    def is_available(self) -> bool:
        return self._inner.is_available()

    def has_expired(self) -> bool:
        return self._inner.has_expired()

    def is_idle(self) -> bool:
        return self._inner.is_idle()

    def is_closed(self) -> bool:
        return self._inner.is_closed()
