"""Talks with the API: what to send, when to pause, when to send again. Nothing here touches a socket.

A talk is a generator. It yields what should be done, and is sent the reply, or is thrown the ``UnreachableError`` that
came instead. Both clients lead the same talks, one with threads and one with asyncio.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from forebay.client.errors import NotEndedError, RequestFailedError, UnreachableError, failure_of
from forebay.client.statuses import Status
from forebay.states import State

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0  # after a broken connection
_MOST_PATIENCE_S = 30.0  # whoever is told to come back later than this is told so at once
_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 1.0  # between two looks at a request that is waited for


@dataclass(frozen=True, slots=True)
class Send:
    """One HTTP request. ``is_repeatable``: doing it twice is as good as once. ``stream``: leave the reply open."""

    method: str
    path: str
    json: Any = None
    content: bytes | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = False
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. ``source`` is the open response of a stream that goes well; whoever led the talk closes it."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""
    source: Any = None

    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.content)


Talk = Generator[Send | Pause, Any, T]


@dataclass(frozen=True, slots=True)
class Retries:
    """How often something is sent again, and after what pause."""

    most: int

    def pause_s(self, error: Exception, attempt: int, *, is_repeatable: bool) -> float | None:
        """Seconds until the next attempt, ``None`` where there is none. The first attempt is number 0."""
        if attempt >= self.most:
            return None
        if isinstance(error, RequestFailedError):
            wanted = error.retry_after_s if error.is_retryable else None
            return wanted if wanted is not None and wanted <= _MOST_PATIENCE_S else None
        if isinstance(error, UnreachableError):
            is_open = error.was_sent and (error.is_timeout or not is_repeatable)
            return None if is_open else min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S)
        return None


def succeeded(reply: Reply) -> Reply:
    """The reply, when it is a good one.

    Raises:
        RequestFailedError: it is none.
    """
    if reply.status >= 400:
        raise failure_of(reply.status, reply.headers, reply.content)
    return reply


def exchange(send: Send, retries: Retries) -> Talk[Reply]:
    """Send until there is a good reply, or no further attempt."""
    attempt = 0
    while True:
        try:
            return succeeded((yield send))
        except (RequestFailedError, UnreachableError) as error:
            pause_s = retries.pause_s(error, attempt, is_repeatable=send.is_repeatable)
            if pause_s is None:
                raise
        yield Pause(pause_s)
        attempt += 1


def path_of(rid: str) -> str:
    """Where a request is asked about."""
    return f"/v1/requests/{quote(rid, safe='')}"


def look(rid: str, retries: Retries) -> Talk[Status]:
    """How a request stands."""
    reply = yield from exchange(Send("GET", path_of(rid), is_repeatable=True), retries)
    return Status.of(reply.json())


def until_end(
    rid: str,
    retries: Retries,
    timeout_s: float | None = None,
    known: Status | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Talk[Status]:
    """Look at a request until it has ended, well or badly. ``known`` is what the last look told.

    Raises:
        NotEndedError: it had not after ``timeout_s``.
    """
    give_up_at = None if timeout_s is None else clock() + timeout_s
    pause_s = _FIRST_LOOK_S
    while True:
        status = known or (yield from look(rid, retries))
        known = None
        if status.state.is_end:
            return status
        if give_up_at is not None and clock() + pause_s > give_up_at:
            raise NotEndedError(f"request {rid!r} is {status.state} after {timeout_s:g} s")
        yield Pause(pause_s)
        pause_s = min(pause_s * 1.5, _LAST_LOOK_S)


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """A request that must not be done twice, under an id that nobody else has.

    Attributes:
        read: the result, from a good reply.
        recover: the result of a request that had been accepted when its connection broke, as a talk; ``None`` when it
            was cancelled, as the API does when its caller seems to have gone.
    """

    send: Send
    rid: str
    read: Callable[[Any], T]
    recover: Callable[[Status, Retries], Talk[T | None]]


def once(work: Work[T], retries: Retries) -> Talk[T]:
    """Do a piece of work. Before it is sent again after a broken connection, it is looked for under its id."""
    attempt, was_sent = 0, False
    while True:
        try:
            return work.read(succeeded((yield work.send)).json())
        except (RequestFailedError, UnreachableError) as error:
            pause_s = retries.pause_s(error, attempt, is_repeatable=True)
            is_ours = was_sent and isinstance(error, RequestFailedError) and error.code == "duplicate_rid"
            if pause_s is None and not (is_ours and attempt <= retries.most):
                raise
            was_sent = was_sent or (isinstance(error, UnreachableError) and error.was_sent)
            is_broken = is_ours or isinstance(error, UnreachableError)
        yield Pause(pause_s or 0)
        if was_sent and is_broken:
            found = yield from _find(work, retries)
            if found is not None:
                return found
        attempt += 1


def _find(work: Work[T], retries: Retries) -> Talk[T | None]:
    """The result of work that was accepted before; ``None`` when it must be sent again."""
    try:
        status = yield from look(work.rid, retries)
    except RequestFailedError as error:
        if error.status == 404:
            return None
        raise
    if status.state is State.CANCELLED:
        return None
    return (yield from work.recover(status, retries))
