"""One request to one address, over a connection that the guard allows or the proxy that the deployment names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import httpcore

from api.fetch.address import PORTS, Address
from api.fetch.dial import BlockedError, GuardedBackend, LookupFailedError
from api.fetch.trouble import Trouble

_USER_AGENT = b"forebay"
_KEPT, _KEPT_S = 8, 10.0


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies of a deployment by scheme, and the hosts that are asked without."""

    http: str = ""
    https: str = ""
    without: str = ""

    def of(self, address: Address) -> str:
        """The proxy for an address; empty for none."""
        proxy = self.https if address.scheme == "https" else self.http
        if proxy and proxy_bypass_environment(address.host, {"no": self.without}):
            return ""
        return proxy


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Of one try, in seconds: to connect, and between two pieces of an answer."""

    connect_s: float = 5.0
    read_s: float = 10.0

    def as_map(self) -> dict[str, float]:
        """As the library wants them."""
        return {"connect": self.connect_s, "read": self.read_s, "write": self.read_s, "pool": self.connect_s}


@dataclass(slots=True)
class Hops:
    """Connections of one process; those that are idle are kept a while."""

    backend: GuardedBackend
    proxies: Proxies
    timeouts: Timeouts
    connections: int
    _pools: dict[str, httpcore.AsyncConnectionPool] = field(default_factory=dict)

    @asynccontextmanager
    async def ask(self, address: Address) -> AsyncIterator[httpcore.Response]:
        """The answer of an address, its body not read yet.

        Raises:
            BlockedError: the rules forbid it.
            Trouble: nobody answered, or not as HTTP.
        """
        url = httpcore.URL(
            scheme=address.scheme.encode(),
            host=address.host.encode(),
            port=None if address.port == PORTS[address.scheme] else address.port,
            target=address.target.encode(),
        )
        pool = self._pool(self.proxies.of(address))
        with _translated():
            async with pool.stream(
                "GET", url, headers=_headers(address), extensions={"timeout": self.timeouts.as_map()}
            ) as response:
                yield response

    def _pool(self, proxy: str) -> httpcore.AsyncConnectionPool:
        if proxy not in self._pools:
            self._pools[proxy] = self._made(proxy)
        return self._pools[proxy]

    def _made(self, proxy: str) -> httpcore.AsyncConnectionPool:
        most = self.connections
        if proxy:
            return httpcore.AsyncHTTPProxy(
                proxy, max_connections=most, max_keepalive_connections=_KEPT, keepalive_expiry=_KEPT_S
            )
        return httpcore.AsyncConnectionPool(
            max_connections=most,
            max_keepalive_connections=_KEPT,
            keepalive_expiry=_KEPT_S,
            network_backend=self.backend,
        )

    async def close(self) -> None:
        """Close what is kept."""
        for pool in self._pools.values():
            await pool.aclose()


def _headers(address: Address) -> Sequence[tuple[bytes, bytes]]:
    # Compressed answers are decoded all the same: some servers send nothing else.
    headers = [(b"User-Agent", _USER_AGENT), (b"Accept", b"*/*"), (b"Accept-Encoding", b"identity")]
    if address.authorization is not None:
        headers.append((b"Authorization", address.authorization.encode()))
    return headers


def header_of(response: httpcore.Response, name: bytes) -> str:
    """A header; empty where there is none."""
    return next((value.decode("latin-1").strip() for key, value in response.headers if key.lower() == name), "")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except BlockedError:
        raise
    except LookupFailedError as error:
        raise Trouble("its host is unknown", is_passing=True) from error
    except httpcore.TimeoutException as error:
        raise Trouble("it took too long to answer", is_passing=True, is_slow=True) from error
    except (httpcore.NetworkError, httpcore.ProxyError) as error:
        raise Trouble("the connection failed", is_passing=True) from error
    except httpcore.ProtocolError as error:
        raise Trouble("its answer was cut off, or is no HTTP", is_passing=True) from error
