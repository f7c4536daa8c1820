"""What a call can end with instead of its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from forebay.codes import CODES
from forebay.errors import ForebayError, Problem

_SHOWN_CHARACTERS = 200  # of an error page that is not ours


class RequestFailedError(ForebayError):
    """The API answered with an error: it refused the request, or the request ended badly."""

    def __init__(self, problem: Problem, rid: str | None = None) -> None:
        super().__init__(f"{problem.status} {problem.code}: {problem.message}")
        self.problem = problem
        self.rid = rid

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def code(self) -> str:
        """Stable between releases; docs/errors.md lists them."""
        return self.problem.code

    @property
    def message(self) -> str:
        """A sentence for people."""
        return self.problem.message

    @property
    def param(self) -> str | None:
        """The place in the body."""
        return self.problem.param

    @property
    def retry_after_s(self) -> int | None:
        """After how many seconds the API wants to be asked again, where it says so."""
        return self.problem.retry_after_s

    @property
    def is_retryable(self) -> bool:
        """Whether the same request can go well another time: too many at once, or something of the tier's own."""
        return self.status in (429, 503)


class UnreachableError(ForebayError, ConnectionError):
    """No answer came: nobody listens there, the connection broke, or it took too long.

    Args:
        message: with the address and the cause.
        was_sent: the request may have arrived, so it may be running.
        is_timeout: the client's own patience ended.
    """

    def __init__(self, message: str, *, was_sent: bool, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        self.is_timeout = is_timeout


class NotEndedError(ForebayError, TimeoutError):
    """A request was waited for and has not ended; it goes on."""


class FileError(ForebayError):
    """A file that cannot be sent: it cannot be read, or its name tells no kind of media."""


def failure_of(status: int, headers: Mapping[str, str], content: bytes) -> RequestFailedError:
    """The error in a response, also in one that somebody between us and the API has written."""
    try:
        error = json.loads(content)["error"]
        code, message, param, rid = error["code"], error["message"], error.get("param"), error.get("rid")
    except (ValueError, KeyError, TypeError, AttributeError):
        code, param, rid = "http_error", None, headers.get("x-request-id")
        message = " ".join(content[:_SHOWN_CHARACTERS].decode(errors="replace").split()) or "no further word"
    after = headers.get("retry-after", "")
    retry_after_s = int(after) if after.isdecimal() else None
    return RequestFailedError(
        Problem(code=str(code), message=str(message), status=status, param=param, retry_after_s=retry_after_s), rid
    )


def failure_in(error: Mapping[str, Any]) -> RequestFailedError:
    """An error that stands in a batch, a stream or a record, where no HTTP status goes with it."""
    code = error["code"]
    by_type = 400 if error.get("type") == "invalid_request_error" else 500
    status = CODES[code].status if code in CODES else by_type
    return RequestFailedError(
        Problem(code=code, message=error["message"], status=status, param=error.get("param")), error.get("rid")
    )
