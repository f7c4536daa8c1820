"""The feature cache's verbs: seek, commit, abandon; and what an operator does with entries.

Whoever seeks a key either gets a hold on its block, or is told that somebody makes it, or makes it. A flight is what
is being made: one for each key on the node, of one process; that of a dead one is taken over by the next who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forebay.ticket import Handle
from handoff.pool import cache, ledger
from handoff.pool.blocks import Block
from handoff.pool.pool import Pool, StaleHandleError
from handoff.pool.table import HoldState, Number, Table


@dataclass(frozen=True, slots=True)
class Found:
    """The key's content: a block, held by this process and read-only, and the entry's description."""

    block: Block
    note: bytes


@dataclass(frozen=True, slots=True)
class Flight:
    """The caller makes it, and says at the end that it is made or will not be."""

    row: int
    serial: int


@dataclass(frozen=True, slots=True)
class Pending:
    """Somebody else makes it."""

    owner: str


Sought = Found | Flight | Pending | None
"""``None``: nobody makes it, and there is no room to note that one does; the caller works without the cache."""


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """A cache entry, as the operator sees it. ``used`` counts up: the least is evicted first."""

    slot: int
    key: str
    offset: int
    length: int
    holds: int
    is_pinned: bool
    used: int
    note: bytes


class FeatureCache:
    """The cache in one process' pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @property
    def budget_bytes(self) -> int:
        """Bytes that entries may take while nobody holds them; 0 turns the cache off."""
        with self._pool.locked() as table:
            return table.numbers[Number.CACHE_BUDGET]

    def set_budget(self, size_bytes: int) -> None:
        """Keep at most that much, from now on."""
        with self._pool.changing() as table:
            table.numbers[Number.CACHE_BUDGET] = min(size_bytes, self._pool.data_bytes)
            cache.trim(table, self._pool.data_bytes)

    def seek(self, keys: Sequence[bytes], rid: str, attempt: int, *, again: bool = False) -> list[Sought]:
        """What there is of each key; each is 32 bytes, and none stands there twice.

        Args:
            keys: what is asked for.
            rid: for whom.
            attempt: of that request.
            again: whether the caller has been told ``Pending`` before, and is counted.
        """
        with self._pool.changing() as table:
            return [self._seek(table, key, (self._pool.owner, "", rid, attempt), again) for key in keys]

    def has(self, keys: Sequence[bytes]) -> list[bool]:
        """Whether there is an entry of each key now; nothing is held or counted."""
        with self._pool.locked() as table:
            return [cache.find(table, key) is not None for key in keys]

    def _seek(self, table: Table, key: bytes, who: tuple[str, str, str, int], again: bool) -> Sought:
        slot = cache.find(table, key)
        if slot is not None:
            row = ledger.hold(table, slot, who, HoldState.WRITING)
            if row is None:
                return None
            table.numbers[Number.HITS] += 1
            start, length = int(table.note_start[slot]), int(table.note_length[slot])
            block = self._pool.block_of(table, row, read_only=True)
            return Found(block, block.bytes_at(start, length))
        return self._join_flight(table, key, again)

    def _join_flight(self, table: Table, key: bytes, again: bool) -> Sought:
        me = self._pool.owner
        row = cache.flight_of(table, key)
        if row is not None:
            owner = table.flights["owner"][row].decode()
            if owner != me and self._pool.is_alive(owner):
                table.numbers[Number.ATTACHES] += not again
                return Pending(owner)
            flight = cache.take_over(table, row, me)
        else:
            started = cache.start_flight(table, key, me)
            if started is None:
                return None
            flight = started
        table.numbers[Number.MISSES] += 1
        return Flight(*flight)

    def commit(self, flight: Flight, key: bytes, handle: Handle, note: tuple[int, int]) -> None:
        """Make a block that this process holds the entry of a key. It must be whole, valid and never written again.

        Args:
            flight: what ``seek`` gave.
            key: 32 bytes.
            handle: of the block.
            note: start and length, within the block, of the entry's description.

        Raises:
            StaleHandleError: the block is no longer held.
            ValueError: the description does not lie within it.
        """
        start, length = note
        if not 0 <= start <= start + length <= handle.length:
            raise ValueError(f"{length} bytes at {start} do not lie in a block of {handle.length} bytes")
        with self._pool.changing() as table:
            if not self._pool.holds(table, handle):
                raise StaleHandleError(f"slot {handle.slot} is no longer held")
            cache.enter(table, int(table.block[handle.slot]), key, note)
            cache.end_flight(table, flight.row, flight.serial)

    def abandon(self, flight: Flight) -> bool:
        """It will not be made; whoever waits for it makes it. ``False``, and harmless, after a commit."""
        with self._pool.changing() as table:
            return cache.end_flight(table, flight.row, flight.serial)

    def entries(self) -> list[EntryInfo]:
        """Every entry, the least recently used first."""
        with self._pool.locked() as table:  # copied out in a few steps: everybody on the node waits meanwhile
            slots = np.flatnonzero(table.entry)
            names = ("offset", "length", "refs", "pinned", "used", "note_start", "note_length")
            columns = [getattr(table, name)[slots].tolist() for name in names]
            keys = table.key[slots]
            notes = [
                self._pool.bytes_in(offset + start, length)
                for offset, start, length in zip(columns[0], columns[5], columns[6], strict=True)
            ]
        rows = zip(slots.tolist(), keys, *columns[:5], notes, strict=True)
        found = [
            EntryInfo(slot, key.tobytes().hex(), offset, length, holds, bool(pinned), used, note)
            for slot, key, offset, length, holds, pinned, used, note in rows
        ]
        return sorted(found, key=lambda entry: entry.used)

    def pin(self, key: str, *, pinned: bool = True) -> bool:
        """Keep an entry whatever room is needed, or no longer; ``False`` when there is none of that key (in hex)."""
        with self._pool.changing() as table:
            slot = cache.find(table, bytes.fromhex(key))
            if slot is None:
                return False
            table.pinned[slot] = pinned
            cache.trim(table, self._pool.data_bytes)
        return True

    def clear(self) -> int:
        """Forget every entry; those in use go with their last hold. How many there were."""
        with self._pool.changing() as table:
            slots = np.flatnonzero(table.entry)
            cache.forget_all(table, slots, self._pool.data_bytes)
        return len(slots)

    def flights(self) -> list[tuple[Flight, str]]:
        """What is being made, and by whom."""
        with self._pool.locked() as table:
            rows = np.flatnonzero(table.flights["serial"]).tolist()
            return [
                (Flight(row, int(one["serial"])), one["owner"].decode()) for row in rows for one in [table.flights[row]]
            ]
