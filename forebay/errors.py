"""What can go wrong with a request, said once: whose fault it is, a stable code, and a sentence to act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class ForebayError(Exception):
    """Root of every error that Forebay raises on purpose."""


class ConfigurationError(ForebayError):
    """The process cannot start as it was asked to; the text names the setting and its value."""


class Rejected(ForebayError):
    """The caller's mistake: a 4xx with a code that does not change and a message that names the thing.

    Args:
        code: short stable identifier, for example ``media_too_large``.
        message: one sentence with the numbers that disagree.
        param: the field of the request that is wrong, for example ``image_data[1]``.
        status: HTTP status, 400 to 499.
        retry_after_s: when the same may be asked again, where that would help.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        status: int = 400,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.status = status
        self.retry_after_s = retry_after_s


class Failed(ForebayError):
    """Our own fault or the system's: a 5xx. The cause stays in the log, joined by the request id."""

    def __init__(self, code: str, message: str, *, status: int = 500, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s


# A caller's own names and values may be megabytes. The numbers stand at either end of a sentence, and stay.
MOST_MESSAGE, MOST_PARAM = 600, 120


def shortened(text: str, most: int) -> str:
    """The beginning and the end of a text, together at most so many characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 3]} … {text[-tail:]}"


def _readable(text: str, most: int) -> str:
    """What JSON can carry in any case: a caller's name may hold half a character."""
    return shortened(text, most).encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as it travels through the record and to the caller, who reads no more of what he sent than a little."""

    code: str
    message: str
    status: int
    param: str | None = None
    retry_after_s: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", _readable(self.message, MOST_MESSAGE))
        if self.param is not None:
            object.__setattr__(self, "param", _readable(self.param, MOST_PARAM))

    @property
    def type(self) -> str:
        """``invalid_request_error`` when the caller can mend it, ``server_error`` when only we can."""
        return "invalid_request_error" if self.status < 500 else "server_error"

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """Describe any exception; one that nobody foresaw tells the caller nothing of its inside."""
        if isinstance(error, Rejected):
            return cls(error.code, error.message, error.status, error.param, error.retry_after_s)
        if isinstance(error, Failed):
            return cls(error.code, error.message, error.status, None, error.retry_after_s)
        return cls("internal_error", "an internal error stopped this request; the log has it under this rid", 500)

    def as_map(self) -> dict[str, Any]:
        told = {"code": self.code, "message": self.message, "status": self.status, "param": self.param}
        return told if self.retry_after_s is None else {**told, "retry_after_s": self.retry_after_s}

    @classmethod
    def from_map(cls, data: Mapping[str, Any]) -> Problem:
        return cls(data["code"], data["message"], data["status"], data.get("param"), data.get("retry_after_s"))

    def body(self, rid: str | None) -> dict[str, Any]:
        """The JSON body that a caller receives."""
        return {
            "error": {
                "type": self.type,
                "code": self.code,
                "message": self.message,
                "param": self.param,
                "rid": rid,
            }
        }
