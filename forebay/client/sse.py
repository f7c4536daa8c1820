"""Server-sent events, read from bytes as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event as it was sent."""

    name: str
    data: str
    id: str | None


@dataclass(slots=True)
class EventReader:
    """Collects bytes into events. Lines end with a newline alone: U+2028 in an answer ends none."""

    _rest: bytes = b""
    _fields: dict[str, list[str]] = field(default_factory=dict)

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        """The events that these bytes complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r").decode()
            if text:
                self._take(text)
            elif self._fields:
                event, self._fields = _event(self._fields), {}
                if event.data:
                    yield event

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name:  # a line that begins with a colon is a comment
            self._fields.setdefault(name, []).append(value.removeprefix(" "))


def _event(fields: dict[str, list[str]]) -> ServerEvent:
    identity = fields.get("id")
    return ServerEvent(
        name=fields.get("event", ["message"])[-1],
        data="\n".join(fields.get("data", [])),
        id=identity[-1] if identity else None,
    )
