"""Redis connections with the limits that Forebay needs, and the translation of their failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from forebay.errors import ConfigurationError, Failed
from forebay.sentinels import SCHEME, Sentinels

SOCKET_TIMEOUT_S = 5.0  # above the longest blocking read, which is 2 s
CONNECT_TIMEOUT_S = 3.0
RETRIES = 2  # redis-py replays writes, so every move of ours is idempotent; more would only outlive the caller
AT_ONCE = 64  # commands of one client; others wait, where redis-py would refuse them
_PATIENCE_S = 10.0  # of those; longer means that Redis does not keep up
_IN_A_PIPELINE = " of pipeline caused error: "  # before it redis-py quotes the command, with what it was to write
MAX_BLOCK_MS = 1000  # redis-py breaks blocking reads that come near the socket timeout

BrokenConnection = (redis.ConnectionError, redis.TimeoutError, OSError)

Client = redis.Redis
AsyncClient = redis.asyncio.Redis


def _options(url: str, role: str) -> dict[str, Any]:
    over_tcp = {"socket_connect_timeout": CONNECT_TIMEOUT_S, "socket_keepalive": True}
    return {
        **({} if url.startswith("unix:") else over_tcp),
        "socket_timeout": SOCKET_TIMEOUT_S,
        "health_check_interval": 15,
        "client_name": f"forebay-{role}",
    }


def connect(url: str, role: str) -> Client:
    """A blocking client. Make it after a fork: a connection belongs to one process."""
    return _client(url, retry=Retry(ExponentialBackoff(cap=0.5, base=0.05), RETRIES), **_options(url, role))


def _client(url: str, **options: Any) -> Client:
    if not url.startswith(SCHEME):
        return redis.Redis.from_url(url, **options)
    found = Sentinels.read(url)
    make: Any = redis.sentinel.Sentinel
    watchers = make(found.hosts, sentinel_kwargs=to_a_sentinel(found))
    options |= {"connection_pool_class": _SentinelPool, "db": found.database, **found.sign_in}
    client: Client = watchers.master_for(found.master, **options)
    return client


class _SentinelPool(redis.sentinel.SentinelConnectionPool):
    """Of connections to whoever is the master. Those to the Sentinels end with them, which redis-py leaves open."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        for watcher in self.sentinel_manager.sentinels:
            watcher.close()


def to_a_sentinel(found: Sentinels) -> dict[str, Any]:
    """How each Sentinel is asked: briefly, and once.

    One that does not answer must not use up the patience of whoever looks for the master: there are others. redis-py
    would ask it ten times, which is four seconds for every new connection.
    """
    return {"socket_timeout": 1.0, "socket_connect_timeout": 1.0, "retry": _ONCE, **found.own_sign_in}


_ONCE = Retry(NoBackoff(), 0)
_ONCE_ASYNC = redis.asyncio.retry.Retry(NoBackoff(), 0)


def connect_async(url: str, role: str, at_once: int = AT_ONCE) -> AsyncClient:
    """An asyncio client with as many connections as commands may be under way."""
    retry = redis.asyncio.retry.Retry(ExponentialBackoff(cap=0.5, base=0.05), RETRIES)
    options = {"retry": retry, "places": at_once, **_options(url, role)}
    if not url.startswith(SCHEME):
        return redis.asyncio.Redis.from_pool(_PatientPool.from_url(url, **options))
    found = Sentinels.read(url)
    make: Any = redis.asyncio.sentinel.Sentinel
    watchers = make(found.hosts, sentinel_kwargs=to_a_sentinel(found) | {"retry": _ONCE_ASYNC})
    options |= {"connection_pool_class": _PatientSentinelPool, "db": found.database, **found.sign_in}
    client: AsyncClient = watchers.master_for(found.master, **options)
    return client


class _Patience(redis.asyncio.ConnectionPool):
    """Hands out a number of connections; whoever comes then waits for one, first come, first served.

    redis-py has a pool that waits, but one whose waiters may miss their turn when another is cancelled.
    """

    def __init__(self, *given: Any, places: int, **options: Any) -> None:
        super().__init__(*given, **options | {"max_connections": 1 << 30})
        self._places = asyncio.Semaphore(places)
        self._handed_out: set[Any] = set()

    async def get_connection(self, *given: Any, **named: Any) -> Any:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._places.acquire()
        except TimeoutError as error:
            raise redis.ConnectionError("no connection became free in time") from error
        try:
            connection = await super().get_connection(*given, **named)  # type: ignore[no-untyped-call]
        except BaseException:
            self._places.release()
            raise
        self._handed_out.add(connection)
        return connection

    async def release(self, connection: Any) -> None:
        try:
            await super().release(connection)
        finally:
            if connection in self._handed_out:  # one that could not be made comes back without having been
                self._handed_out.remove(connection)
                self._places.release()


class _PatientPool(_Patience):
    """Of connections to one address."""


class _PatientSentinelPool(_Patience, redis.asyncio.sentinel.SentinelConnectionPool):
    """As ``_SentinelPool``."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        for watcher in self.sentinel_manager.sentinels:
            await watcher.aclose()


def answers(url: str, within_s: float = 1.0) -> bool:
    """Whether a Redis answers there now."""
    try:
        _ping(url, within_s)
    except (redis.RedisError, OSError):
        return False
    return True


def _ping(url: str, within_s: float) -> None:
    client = _client(url, socket_timeout=within_s, retry=None)
    try:
        client.ping()
    finally:
        client.close()


def require(url: str) -> None:
    """Make sure that a Redis answers, before a process begins what needs one.

    Raises:
        ConfigurationError: naming the URL, without its password.
    """
    try:
        _ping(url, CONNECT_TIMEOUT_S)
    except (redis.RedisError, OSError) as error:
        raise ConfigurationError(f"REDIS_URL: no Redis answers at {without_password(url)}: {error}") from error


def without_password(url: str) -> str:
    """A URL that may be shown."""
    if url.startswith(SCHEME):  # the one argument that it may have is a password
        address, question, _ = url.partition("?")
        url = f"{address}?sentinel_password=…" if question else address
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}" if at else url


@contextmanager
def redis_failures() -> Iterator[None]:
    """Turn what redis-py raises into a failure that a caller understands.

    Raises:
        Failed: ``redis_unavailable``, ``redis_full`` or ``redis_refused``, 503.
    """
    try:
        yield
    except BrokenConnection as error:
        raise Failed("redis_unavailable", "the request store cannot be reached", status=503, retry_after_s=2) from error
    except redis.exceptions.OutOfMemoryError as error:
        raise Failed("redis_full", "the request store is full", status=503, retry_after_s=5) from error
    except redis.ResponseError as error:
        reason = str(error).rpartition(_IN_A_PIPELINE)[2]
        raise Failed(
            "redis_refused", f"the request store refused a step: {reason}", status=503, retry_after_s=2
        ) from error


def texts(reply: Any) -> list[str]:
    """A list reply as text."""
    return [one.decode() if isinstance(one, bytes) else str(one) for one in reply]
