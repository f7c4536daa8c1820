"""What both clients need of httpx: how it is set up, how its replies are read, and what its errors are called here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from forebay.client.address import Address
from forebay.client.errors import UnreachableError
from forebay.client.talk import Reply, Send

LONGEST_ANSWER_S = 630.0
"""The longest deadline that the API takes, and what it waits for the end after it."""
_CONNECT_S = 5.0
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def settings(address: Address, timeout_s: float) -> dict[str, Any]:
    """Arguments of an httpx client. There may be as many calls at once as there are callers."""
    return {
        "base_url": address.url,
        "headers": address.headers,
        "timeout": httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=20),
    }


def arguments(send: Send) -> dict[str, Any]:
    """Arguments of an httpx request."""
    return {
        "method": send.method,
        "url": send.path,
        "json": send.json,
        "content": send.content,
        "params": dict(send.params) or None,
        "headers": dict(send.headers),
    }


def is_left_open(send: Send, response: httpx.Response) -> bool:
    """Whether a response is a stream that goes well, and not an ordinary one."""
    return send.stream and response.status_code == 200


def reply_of(response: httpx.Response, *, is_open: bool) -> Reply:
    """A response as the talks see it."""
    content = b"" if is_open else response.content
    return Reply(response.status_code, response.headers, content, response if is_open else None)


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Name httpx' errors by what they mean for a request.

    Raises:
        UnreachableError: no answer came.
    """
    try:
        yield
    except httpx.TransportError as error:
        cause = str(error) or type(error).__name__
        is_timeout = isinstance(error, httpx.TimeoutException)
        was_sent = not isinstance(error, _NEVER_SENT)
        raise UnreachableError(f"no answer from {url}: {cause}", was_sent=was_sent, is_timeout=is_timeout) from error
