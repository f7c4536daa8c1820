"""One request to one address, over a connection that the guard allows or the proxy that the deployment names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import httpcore

from api.fetch.address import PORTS, Address
from api.fetch.dial import BlockedError, GuardedBackend, LookupFailedError, OpenBackend
from api.fetch.names import bracketed
from api.fetch.proxies import Proxies, Proxy
from api.fetch.trouble import Trouble
from api.fetch.tunnels import ProxyPool

_USER_AGENT = b"forebay"
_KEPT, _KEPT_S = 8, 10.0


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
    _pools: dict[Proxy | None, httpcore.AsyncConnectionPool] = field(default_factory=dict)

    @asynccontextmanager
    async def ask(self, address: Address) -> AsyncIterator[httpcore.Response]:
        """The answer of an address, its body not read yet.

        Raises:
            BlockedError: the rules forbid it.
            Trouble: nobody answered, or not as HTTP.
        """
        url = httpcore.URL(
            scheme=address.scheme.encode(),
            host=bracketed(address.host).encode(),  # the library writes it into lines and headers as it is
            port=None if address.port == PORTS[address.scheme] else address.port,
            target=address.target.encode(),
        )
        pool = self._pool(self.proxies.of(address))
        with _translated():
            async with pool.stream(
                "GET", url, headers=_headers(address), extensions={"timeout": self.timeouts.as_map()}
            ) as response:
                yield response

    def _pool(self, proxy: Proxy | None) -> httpcore.AsyncConnectionPool:
        if proxy not in self._pools:
            self._pools[proxy] = self._direct() if proxy is None else self._through(proxy)
        return self._pools[proxy]

    def _direct(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            max_connections=self.connections,
            max_keepalive_connections=_KEPT,
            keepalive_expiry=_KEPT_S,
            network_backend=self.backend,
        )

    def _through(self, proxy: Proxy) -> httpcore.AsyncConnectionPool:
        said = proxy.authorization
        return ProxyPool(
            httpcore.URL(scheme=proxy.scheme, host=bracketed(proxy.host), port=proxy.port, target="/"),
            proxy_headers=None if said is None else [(b"Proxy-Authorization", said.encode())],
            max_connections=self.connections,
            max_keepalive_connections=_KEPT,
            keepalive_expiry=_KEPT_S,
            network_backend=OpenBackend(),
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


def header_of(response: httpcore.Response, name: bytes) -> bytes:
    """A header; empty where there is none."""
    return next(iter(_lines_of(response, name)), b"")


def list_of(response: httpcore.Response, name: bytes) -> bytes:
    """A header that is a list, and may be said in several lines."""
    return b",".join(_lines_of(response, name))


def _lines_of(response: httpcore.Response, name: bytes) -> list[bytes]:
    return [value.strip() for key, value in response.headers if key.lower() == name]


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
    except httpcore.NetworkError as error:
        raise Trouble("the connection failed", is_passing=True) from error
    except httpcore.ProxyError as error:
        raise _refused_by_proxy(str(error)) from error
    except httpcore.ProtocolError as error:
        raise Trouble("its answer was cut off, or is no HTTP", is_passing=True) from error


def _refused_by_proxy(said: str) -> Trouble:
    """A proxy that makes no tunnel: its number alone is told, for its words may be anything."""
    number = said[:3]
    return Trouble(f"its proxy answered {number if number.isdigit() else 'nothing'}", is_passing=number[:1] == "5")
