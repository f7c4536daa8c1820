"""Answers that grow: what each event of a stream makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from forebay.client.answers import Answer
from forebay.client.errors import UnreachableError, failure_in
from forebay.client.sse import EventReader, ServerEvent

_DONE = "[DONE]"


class Growing(Protocol):
    """Reads the events of one kind of stream."""

    def take(self, told: dict[str, Any]) -> Iterator[Answer]:
        """The answers that an event changes."""
        ...


class Generated:
    """Events of ``/generate``: each has all of the text so far."""

    def take(self, told: dict[str, Any]) -> Iterator[Answer]:
        yield Answer.of(told)


@dataclass(slots=True)
class Said:
    """Events of ``/v1/chat/completions``: each has what is new; the last has the counts."""

    _text: str = ""
    _reason: str | None = None

    def take(self, told: dict[str, Any]) -> Iterator[Answer]:
        usage = told.get("usage") or {}
        for choice in told["choices"]:
            self._text += choice["delta"].get("content") or ""
            self._reason = choice["finish_reason"]
        if usage or (told["choices"] and self._reason is None):
            yield Answer(
                text=self._text,
                rid=told["id"],
                prompt_tokens=usage.get("prompt_tokens"),
                completion_tokens=usage.get("completion_tokens"),
                finish_reason=self._reason,
                raw=told,
            )


@dataclass(slots=True)
class Growth:
    """A stream from its first byte to its last.

    ``feed`` raises ``RequestFailedError`` for an error among the events, and ``finish`` raises ``UnreachableError``
    when the stream ended before its end was told.
    """

    growing: Growing
    _reader: EventReader = field(default_factory=EventReader)
    _is_done: bool = False

    def feed(self, data: bytes) -> Iterator[Answer]:
        """The answers that these bytes change."""
        for event in self._reader.feed(data):
            yield from self._take(event)

    def _take(self, event: ServerEvent) -> Iterator[Answer]:
        if event.data == _DONE:
            self._is_done = True
            return
        told = json.loads(event.data)
        if "error" in told:
            raise failure_in(told["error"])
        yield from self.growing.take(told)

    def finish(self) -> None:
        """Nothing more comes."""
        if not self._is_done:
            raise UnreachableError("the stream ended before the answer did", was_sent=True)
