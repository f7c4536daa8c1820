"""The feature pool's verbs: allocate, park, take, free.

Ownership of a block is a sentence: the worker frees it until the ticket is parked; whoever holds the lease frees it
afterwards; the janitor frees what neither did. Every verb names the generation it means, so none can touch the
block of another request.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from forebay.errors import ForebayError
from forebay.ticket import Handle
from handoff.pool import mapping
from handoff.pool.blocks import Block
from handoff.pool.table import SlotState, Table, aligned


class StaleHandleError(ForebayError):
    """The handle's block has been freed, and may be another request's by now."""


@dataclass(frozen=True, slots=True)
class BlockInfo:
    """A block in use, as the janitor and the operator see it."""

    handle: Handle
    state: SlotState
    owner: str
    reader: str
    rid: str
    attempt: int
    since: float
    """Wall clock, seconds, of its allocation."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """How full the pool is."""

    data_bytes: int
    used_bytes: int
    blocks: int

    @property
    def free_bytes(self) -> int:
        return self.data_bytes - self.used_bytes


class Pool:
    """One process' access to its node's pool. Make it after a fork."""

    def __init__(self, path: Path, owner: str, *, writable: bool) -> None:
        self.path = path
        self.owner = owner
        self._map = mapping.Mapping(path, writable=writable)
        self.id = self._map.identity.id
        self.data_bytes = self._map.identity.data_bytes

    @staticmethod
    def create(path: Path, data_bytes: int) -> None:
        """Reserve a new pool; see ``mapping.create``."""
        mapping.create(path, data_bytes)

    def allocate(self, length: int, rid: str, attempt: int) -> Block | None:
        """A block of at least ``length`` bytes for one request, or ``None`` when there is no room now.

        Raises:
            ValueError: ``length`` is not positive, or more than the whole pool.
        """
        size = aligned(length)
        if not 0 < size <= self.data_bytes:
            raise ValueError(f"a block of {length} bytes; the pool has {self.data_bytes}")
        with self._map.locked() as table:
            slot, offset = table.free_slot(), table.first_gap(size, self.data_bytes)
            if slot is None or offset is None:
                return None
            generation = table.next_generation()
            table.detail[slot] = (self.owner.encode(), b"", rid.encode(), attempt, time.time())
            table.generation[slot], table.offset[slot], table.length[slot] = generation, offset, size
            table.state[slot] = SlotState.WRITING
        return self._block(Handle(self.id, slot, offset, size, generation))

    def park(self, handle: Handle) -> None:
        """Hand a written block over to its ticket: from now on its writer's death does not free it."""
        with self._map.locked() as table:
            self._check(table, handle)
            table.state[handle.slot] = SlotState.PARKED

    def take(self, handle: Handle) -> Block:
        """Read a parked block, whose life now depends on this process.

        Raises:
            StaleHandleError: the block is no longer the one that the handle means.
        """
        with self._map.locked() as table:
            self._check(table, handle)
            table.detail["reader"][handle.slot] = self.owner.encode()
            table.state[handle.slot] = SlotState.READING
        return self._block(handle)

    def free(self, handle: Handle) -> bool:
        """Give the bytes back. ``False`` when the block was freed before, or another process reads it by now."""
        with self._map.locked() as table:
            if not self._is_current(table, handle) or self._is_read_elsewhere(table, handle):
                return False
            table.state[handle.slot] = SlotState.FREE
        return True

    def free_if(self, info: BlockInfo) -> bool:
        """Free a block only if it is still in the state, and the hands, that ``info`` saw."""
        with self._map.locked() as table:
            slot = info.handle.slot
            same = self._is_current(table, info.handle) and table.state[slot] == info.state
            if not same or table.detail["reader"][slot].decode() != info.reader:
                return False
            table.state[slot] = SlotState.FREE
        return True

    def blocks(self) -> list[BlockInfo]:
        """Every block in use."""
        with self._map.locked() as table:
            return [self._info(table, slot) for slot in table.state.nonzero()[0].tolist()]

    def stats(self) -> PoolStats:
        with self._map.locked() as table:
            return PoolStats(self.data_bytes, table.used_bytes(), int((table.state != SlotState.FREE).sum()))

    def close(self) -> None:
        self._map.close()

    def _block(self, handle: Handle) -> Block:
        memory = memoryview(self._map.data)[handle.offset : handle.offset + handle.length]
        return Block(handle, memory)

    def _is_current(self, table: Table, handle: Handle) -> bool:
        return (
            handle.pool == self.id
            and bool(table.state[handle.slot] != SlotState.FREE)
            and int(table.generation[handle.slot]) == handle.generation
        )

    def _is_read_elsewhere(self, table: Table, handle: Handle) -> bool:
        # A worker that never heard that its ticket was parked, or a scheduler whose lease has lapsed, must not pull
        # the memory away from under the one that holds the ticket now.
        reader: bytes = table.detail["reader"][handle.slot]
        return bool(table.state[handle.slot] == SlotState.READING) and reader != self.owner.encode()

    def _check(self, table: Table, handle: Handle) -> None:
        if not self._is_current(table, handle):
            raise StaleHandleError(f"slot {handle.slot}, generation {handle.generation}, is no longer in the pool")

    def _info(self, table: Table, slot: int) -> BlockInfo:
        detail = table.detail[slot]
        handle = Handle(self.id, slot, int(table.offset[slot]), int(table.length[slot]), int(table.generation[slot]))
        texts = (detail["owner"].decode(), detail["reader"].decode(), detail["rid"].decode())
        return BlockInfo(
            handle, SlotState(int(table.state[slot])), *texts, int(detail["attempt"]), float(detail["since"])
        )
