"""Texts at which an answer ends. What might be the beginning of one is held back until it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def stops_in(sampling: Mapping[str, Any]) -> tuple[str, ...]:
    """The stop texts of a request: ``stop``, one or a list."""
    given = sampling.get("stop")
    texts = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return tuple(text for text in texts if isinstance(text, str) and text)


class StopFilter:
    """Passes an answer's text on, up to the first stop, which is not part of it."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.is_over = False

    def feed(self, text: str) -> str:
        """What of the text so far may be passed on now; nothing once a stop has come."""
        if self.is_over:
            return ""
        if not self._stops:
            return text
        self._held += text
        found = [at for at in (self._held.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.is_over = True
            return self._take(min(found))
        return self._take(len(self._held) - self._may_be_stop())

    def flush(self) -> str:
        """What was held back, when nothing more comes."""
        return self._take(len(self._held)) if not self.is_over else ""

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        return taken

    def _may_be_stop(self) -> int:
        """Length of the longest end of the text that a stop begins with."""
        longest = min(len(self._held), max(map(len, self._stops)) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0
