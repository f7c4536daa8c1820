"""What lies in a node's folder and pool that is provably nobody's. A look; whoever looks decides whether to act.

The janitor acts on every finding; ``forebay pool check`` only prints them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from forebay.states import State
from handoff import drafts, record
from handoff.connection import Client
from handoff.keys import Keys
from handoff.pool import BlockInfo, FeatureCache, HoldState, Pool, is_alive
from handoff.pool.owners import bury_one, has_fresh_mark, the_dead

_MARK_KEPT_S = 15.0  # of one that has ended over an item: so long its parent may take to ask
_GRACE_S = 5.0  # between a block and the record that speaks of it there is at most one Redis call


def has_just_died(folder: Path, owner: str) -> bool:
    """Whether an owner has died over an item and its parent may not have noticed yet, and will ask what it was at."""
    return has_fresh_mark(folder, owner, _MARK_KEPT_S)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that nobody holds any more.

    Attributes:
        what: the kind of thing.
        name: which one.
        why: how one knows that it is nobody's.
        size_bytes: of shared memory, that it takes.
        remove: takes it away, if it is still as it was seen; whether it did.
    """

    what: str
    name: str
    why: str
    size_bytes: int
    remove: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Looks through one node."""

    folder: Path
    pool: Pool
    redis: Client
    keys: Keys

    def findings(self) -> Iterator[Finding]:
        """All that may be removed now."""
        for info in self.pool.blocks():
            why = self._why_orphan(info)
            if why:
                name = f"slot {info.handle.slot}, {info.state.name.lower()}, of request {info.rid}"
                yield Finding("block", name, why, info.handle.length, partial(self.pool.free_if, info))
        yield from self._in_the_line()
        yield from self._in_the_folder()

    def _in_the_line(self) -> Iterator[Finding]:
        for waiter in self.pool.waiting():
            if not is_alive(self.folder, waiter.owner):
                remove = partial(self.pool.drop_waiter, waiter)
                yield Finding("place in line", waiter.owner, "it has died", 0, remove)
        cache = FeatureCache(self.pool)
        for flight, owner in cache.flights():
            if not is_alive(self.folder, owner):
                remove = partial(cache.abandon, flight)
                yield Finding("cache entry in the making", f"by {owner}", "it has died", 0, remove)

    def _in_the_folder(self) -> Iterator[Finding]:
        for owner in the_dead(self.folder):
            if has_just_died(self.folder, owner):
                continue
            yield Finding("lock file", owner, "nobody holds its lock", 0, partial(bury_one, self.folder, owner))
        for draft in drafts.abandoned(self.folder):
            yield Finding("draft", draft.path.name, "nobody holds its lock", draft.size_bytes, draft.remove)

    def _why_orphan(self, info: BlockInfo) -> str:
        """Why a hold on a block is nobody's; empty when it is somebody's."""
        if info.state is HoldState.WRITING:
            return "" if is_alive(self.folder, info.owner) else f"its writer {info.owner} has died"
        if info.state is HoldState.SHARED:
            return "" if is_alive(self.folder, info.reader) else f"its reader {info.reader} has died"
        if info.state is HoldState.READING and is_alive(self.folder, info.reader):
            return ""
        if time.time() - info.since <= _GRACE_S or self._is_spoken_for(info):
            return ""
        return "no live request leads to it"

    def _is_spoken_for(self, info: BlockInfo) -> bool:
        """Whether a live record still leads to a parked or read block."""
        found = record.read(self.redis, self.keys, info.rid)
        if found is None or found.attempt != info.attempt:
            return False
        # A worker marks its blocks parked just before it parks the ticket.
        return found.state in (State.PARKED, State.ADMITTED) or (
            found.state is State.PROCESSING and is_alive(self.folder, found.owner)
        )
