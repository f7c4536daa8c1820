"""The process' view of the nodes, read from Redis at most once a second however many requests come."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from handoff.connection import AsyncClient
from handoff.keys import Keys
from handoff.nodes import NodeView, view_nodes

_FRESH_S = 1.0
_LATELY_S = 300.0  # a scheduler that loads a large model takes minutes


@dataclass(slots=True)
class Register:
    """A cache of ``view_nodes``."""

    redis: AsyncClient
    keys: Keys
    _nodes: list[NodeView] = field(default_factory=list)
    _engines: dict[str, float] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def nodes(self) -> list[NodeView]:
        """The nodes, as they were within the last second.

        Raises:
            Failed: Redis cannot be reached.
        """
        if time.monotonic() - self._read_at < _FRESH_S:
            return self._nodes
        async with self._lock:  # one reader; those who waited for it find a fresh view
            if time.monotonic() - self._read_at >= _FRESH_S:
                self._nodes = await view_nodes(self.redis, self.keys)
                self._read_at = time.monotonic()
                self._note_engines()
        return self._nodes

    def _note_engines(self) -> None:
        # What others have seen too: a process that has just started must not take a dead scheduler for none.
        for node in self._nodes:
            seen = {model: self._read_at - silent_ms / 1000 for model, silent_ms in node.silent_engines.items()}
            for model, seen_at in (seen | dict.fromkeys(node.engines, self._read_at)).items():
                self._engines[model] = max(seen_at, self._engines.get(model, seen_at))

    def had_engines(self) -> set[str]:
        """Models whose engine was there within the last minutes."""
        since = time.monotonic() - _LATELY_S
        return {model for model, seen_at in self._engines.items() if seen_at >= since}
