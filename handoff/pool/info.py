"""What the pool tells of itself: who holds a block, and how full it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.ticket import Handle
from handoff.pool.table import HoldState


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """A hold on a block, as the janitor and the operator see it."""

    handle: Handle
    state: HoldState
    owner: str
    reader: str
    rid: str
    attempt: int
    since: float
    """Wall clock, seconds."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How full the pool is, and what it has counted since it was made.

    Attributes:
        used_bytes: held by somebody.
        cached_bytes: of cache entries that nobody holds; they make room when it is needed.
        pinned_bytes: of those, what stays all the same.
        blocks: held by somebody.
        entries: cache entries, held or not.
        waiting: how many wait for room.
    """

    data_bytes: int
    used_bytes: int
    cached_bytes: int
    pinned_bytes: int
    blocks: int
    entries: int
    waiting: int
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def free_bytes(self) -> int:
        """What could be taken, in one piece or in several."""
        return self.data_bytes - self.used_bytes - self.pinned_bytes
