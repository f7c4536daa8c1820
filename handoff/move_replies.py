"""What Redis replies to the moves, in types of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from handoff.connection import texts

LOOKS_AT_ONCE = 100  # requests in one script: Redis does nothing else meanwhile


class Limit(StrEnum):
    """What a tenant may have only so much of."""

    LIVE = "live"
    BYTES = "bytes"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Reply of ``accept``: ``deadline_ms`` on success, else why not."""

    outcome: Literal["ok", "duplicate", "busy", "over"]
    deadline_ms: int = 0
    state: str = ""
    live: int = 0
    excess: Excess | None = None


@dataclass(frozen=True, slots=True)
class Excess:
    """Which limit a tenant would go beyond, the number that it would have, and when to come again."""

    limit: Limit
    wanted: int
    allowed: float
    wait_ms: int


@dataclass(frozen=True, slots=True)
class Moved:
    """Reply of a fenced move: whether it happened, and otherwise the state, or the limit, that stood against it."""

    ok: bool
    state: str = ""
    excess: Excess | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """Reply of ``begin``. ``left_ms`` is the time to the deadline, and differs when the call is repeated."""

    outcome: Literal["run", "busy", "expired", "abandoned", "refused"]
    attempt: int = 0
    body: bytes = b""
    left_ms: int = field(default=0, compare=False)
    owner: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A ticket that a scheduler now holds under ``claim``. ``lapses`` says how many have lost it before."""

    rid: str
    claim: str
    ticket: bytes
    lapses: int = 0


@dataclass(frozen=True, slots=True)
class Expired:
    """Requests that a deadline has ended, with the states in which it found them."""

    ended: tuple[tuple[str, str], ...]
    has_more: bool
    """Whether there may be others."""


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def read_moved(reply: Sequence[Any]) -> Moved:
    """Of ``finish`` and its like: ok, refused with the state, or over with a limit."""
    if reply[0] == b"over":
        return Moved(False, excess=_read_excess(reply[1:]))
    return Moved(True) if reply[0] == b"ok" else Moved(False, _text(reply[1]))


def _read_excess(reply: Sequence[Any]) -> Excess:
    name, wanted, allowed, wait_ms = reply
    return Excess(Limit(_text(name)), int(wanted), float(allowed), int(wait_ms))


def read_accepted(reply: Sequence[Any]) -> Accepted:
    """Of ``accept``."""
    outcome = _text(reply[0])
    if outcome == "ok":
        return Accepted("ok", deadline_ms=int(reply[1]))
    if outcome == "duplicate":
        return Accepted("duplicate", state=_text(reply[1]))
    if outcome == "over":
        return Accepted("over", excess=_read_excess(reply[1:]))
    return Accepted("busy", live=int(reply[1]))


def read_begun(reply: Sequence[Any]) -> Begun:
    """Of ``begin``."""
    match _text(reply[0]):
        case "run":
            return Begun("run", attempt=int(reply[1]), body=reply[2], left_ms=int(reply[3]))
        case "busy":
            return Begun("busy", owner=_text(reply[1]))
        case "expired":
            return Begun("expired", attempt=int(reply[2]), state=_text(reply[1]))
        case "abandoned":
            return Begun("abandoned", attempt=int(reply[1]), state="processing")
        case _:
            return Begun("refused", state=_text(reply[1]))


def read_claimed(reply: Sequence[bytes], nonce: str) -> list[Claimed]:
    """Of ``claim``, under its ``nonce``; what had no ticket is left out."""
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    return [Claimed(_text(rid), nonce, ticket, int(lapses)) for rid, ticket, lapses in rows if ticket]


def read_look(reply: Sequence[bytes]) -> tuple[int, list[str]]:
    """Of ``look`` and ``neglected``: Redis' clock in ms, and request ids."""
    return int(reply[0]), texts(reply[1:])


def read_expired(reply: Sequence[Any]) -> Expired:
    """Of ``expire``."""
    names = texts(reply[1:])
    return Expired(tuple(zip(names[::2], names[1::2], strict=True)), int(reply[0]) == LOOKS_AT_ONCE)
