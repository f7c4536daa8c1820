"""The one door to the network: a name is looked up once, all it leads to is checked, and just that is dialled."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpcore

from api.fetch.names import is_ip, unbracketed
from api.fetch.rules import FetchRules

Resolve = Callable[[str, int], Awaitable[list[str]]]


class BlockedError(Exception):
    """The rules forbid it; nothing was dialled."""


class LookupFailedError(Exception):
    """The name has no address, or nobody answers for it now."""


async def resolve(host: str, port: int) -> list[str]:
    """Every address of a host, in the order to try them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


class OpenBackend(httpcore.AsyncNetworkBackend):
    """Connects wherever it is told to: to a proxy, which the deployment has named."""

    def __init__(self) -> None:
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Dial a host; an IPv6 address may be in brackets.

        Raises:
            httpcore.ConnectError: nobody answers there.
        """
        stream = await self._backend.connect_tcp(unbracketed(host), port, timeout, local_address, socket_options)
        return _Closing(stream)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Never.

        Raises:
            BlockedError: always.
        """
        raise BlockedError(path)

    async def sleep(self, seconds: float) -> None:
        """As the library wants it."""
        await self._backend.sleep(seconds)


class GuardedBackend(OpenBackend):
    """Connects as the rules allow."""

    def __init__(self, rules: FetchRules, resolve: Resolve = resolve) -> None:
        super().__init__()
        self._rules = rules
        self._resolve = resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Dial a host.

        Raises:
            BlockedError: one of its addresses may not be dialled; then none is.
            LookupFailedError: it has none.
            httpcore.ConnectError: nobody answers there.
        """
        addresses = await self._checked(unbracketed(host), port, timeout)
        for number, address in enumerate(addresses):
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses) - 1:
                    raise
        raise AssertionError("a host that was looked up has an address")

    async def _checked(self, host: str, port: int, timeout: float | None) -> list[str]:
        addresses = [host] if is_ip(host) else await self._look_up(host, port, timeout)
        # One bad address among good ones is how a name is pointed to the inside: none of them is dialled.
        blocked = [one for one in addresses if not self._rules.allows_ip(one)]
        if blocked:
            raise BlockedError(host)
        return addresses

    async def _look_up(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            found = await asyncio.wait_for(self._resolve(host, port), timeout)
        except (OSError, UnicodeError) as error:
            raise LookupFailedError(host) from error
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("looking up the host took too long") from error
        if not found:
            raise LookupFailedError(host)
        return found


class _Closing(httpcore.AsyncNetworkStream):
    """A connection that is closed when it is given up within its TLS handshake; the library leaves it open."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        try:
            name = None if server_hostname is None else unbracketed(server_hostname)
            return await self._stream.start_tls(ssl_context, name, timeout)
        except BaseException:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
