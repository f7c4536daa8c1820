"""What the API lists or keeps: models, requests, uploaded media."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forebay.states import State


@dataclass(frozen=True, slots=True)
class Model:
    """A model that is served; without an engine its features can be made, and nothing runs it."""

    name: str
    has_engine: bool


@dataclass(frozen=True, slots=True)
class Upload:
    """Media that the API keeps until it expires; it stands for its bytes wherever a request takes media.

    Attributes:
        id: ``sha256:…``, so the same bytes have the same id.
        size_bytes: of the media.
        expires_ms: milliseconds since 1970.
    """

    id: str
    size_bytes: int
    expires_ms: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Upload:
        return cls(told["id"], told["bytes"], told["expires_ms"])


@dataclass(frozen=True, slots=True)
class Listed:
    """One request of a list. Times are milliseconds since 1970."""

    rid: str
    state: State
    model: str
    kind: str
    attempt: int
    accepted_ms: int
    deadline_ms: int
    node: str | None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Listed:
        return cls(
            rid=told["rid"],
            state=State(told["state"]),
            model=told["model"],
            kind=told["kind"],
            attempt=told["attempt"],
            accepted_ms=told["accepted_ms"],
            deadline_ms=told["deadline_ms"],
            node=told["node"],
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and where the next part begins."""

    entries: tuple[Listed, ...]
    next: str | None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Page:
        return cls(tuple(Listed.of(one) for one in told["data"]), told["next"])
