"""The feature pool's verbs: allocate, park, take, share, free; and the line of those who wait for room.

Ownership of a block is a sentence: the worker frees it until the ticket is parked; whoever holds the lease frees it
afterwards; the janitor frees what neither did. A handle names one *hold* on a block, and the generation of it, so no
verb can touch what is another request's; a block goes with the last hold, unless it is a cache entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import numpy as np

from forebay.errors import ForebayError
from forebay.ticket import Handle
from handoff.pool import cache, ledger, line, mapping
from handoff.pool.blocks import Block
from handoff.pool.info import BlockInfo, PoolStats
from handoff.pool.line import Waiter
from handoff.pool.owners import is_alive
from handoff.pool.placement import ANYWHERE, Placement
from handoff.pool.table import COUNTERS, HoldState, Number, Table, aligned


class StaleHandleError(ForebayError):
    """The handle's hold is gone, and its block may be another request's by now."""


class Pool:
    """One process' access to its node's pool. Make it after a fork.

    Args:
        path: the pool's file.
        owner: the name of this process' life; see ``owners``.
        writable: whether it writes features, or only reads them.
        installation: whose pool it must be; ``None`` does not ask.
        prefault: whether every page is taken now; one who only looks at the table needs none.
    """

    def __init__(
        self, path: Path, owner: str, *, writable: bool, installation: str | None = None, prefault: bool = True
    ) -> None:
        self.path = path
        self.owner = owner
        self._map = mapping.Mapping(path, writable=writable, installation=installation, prefault=prefault)
        self.id = self._map.identity.id
        self.data_bytes = self._map.identity.data_bytes
        self.is_alive: Callable[[str], bool] = partial(is_alive, path.parent)

    @staticmethod
    def create(path: Path, data_bytes: int, installation: str = "", placement: Placement = ANYWHERE) -> None:
        """Reserve a new pool; see ``mapping.create``."""
        mapping.create(path, data_bytes, installation, placement)

    # blocks

    def allocate(self, length: int, rid: str, attempt: int) -> Block | None:
        """A block of at least ``length`` bytes for one request, or ``None`` when there is no room now.

        Raises:
            ValueError: ``length`` is not positive, or more than the whole pool.
        """
        blocks = self.allocate_all([length], rid, attempt)
        return blocks[0] if blocks else None

    def allocate_all(
        self, lengths: Sequence[int], rid: str, attempt: int, *, turn: int = 0, jumps: bool = False
    ) -> list[Block] | None:
        """A block for each length, or ``None`` when not all of them fit now, or others wait for room.

        Args:
            lengths: in bytes, each positive.
            rid: whose the blocks are.
            attempt: of that request.
            turn: the place in the line that this caller has.
            jumps: whether it goes before the line: it holds blocks already, and others may wait for those.

        Raises:
            ValueError: a length that is not positive, or all together more than the whole pool.
        """
        sizes = [aligned(length) for length in lengths]
        if min(sizes) < 1 or sum(sizes) > self.data_bytes:
            total = sum(lengths) if min(sizes) < 1 or sum(lengths) > self.data_bytes else sum(sizes)
            raise ValueError(f"a block of {total} bytes; the pool has {self.data_bytes}")
        with self.changing() as table:
            if not jumps and not line.is_first(table, turn, self.is_alive):
                return None
            rows = self._allocate_rows(table, sizes, rid, attempt)
            return None if rows is None else [self._block(self._handle(table, row)) for row in rows]

    def _allocate_rows(self, table: Table, sizes: Sequence[int], rid: str, attempt: int) -> list[int] | None:
        rows: list[int] = []
        for number, size in enumerate(sizes):
            row = ledger.allocate(table, size, self.owner, rid, attempt)
            # One that waits for room asks again and again: entries go once that helps, and not before.
            if row is None and cache.can_make_room(table, sizes[number:]):
                for slot in cache.idle(table):
                    cache.evict(table, slot)
                    row = ledger.allocate(table, size, self.owner, rid, attempt)
                    if row is not None:
                        break
            if row is None:
                for taken in rows:
                    ledger.drop(table, taken)
                return None
            rows.append(row)
        return rows

    def park(self, handle: Handle) -> None:
        """Hand a written block over to its ticket: from now on its writer's death does not free it."""
        with self.changing() as table:
            self._check(table, handle)
            table.state[handle.slot] = HoldState.PARKED

    def take(self, handle: Handle, lapses: int = 0) -> Block:
        """Read a parked block, whose life now depends on this process.

        Args:
            handle: from the ticket.
            lapses: how many leases of the ticket had ended when it was claimed. A process that was stopped between its
                claim and this step must not take the block from the one that has claimed the ticket since.

        Raises:
            StaleHandleError: the hold is no longer the one that the handle means, or a later claim has taken it.
        """
        with self.changing() as table:
            self._check(table, handle)
            if table.cells.lapses[handle.slot] > lapses:
                raise StaleHandleError(f"slot {handle.slot} was taken by a later claim")
            if table.cells.state[handle.slot] != HoldState.SHARED:
                table.detail["reader"][handle.slot] = self.owner.encode()
                table.cells.lapses[handle.slot] = lapses
                table.cells.state[handle.slot] = HoldState.READING
        return self._block(handle, read_only=True)

    def share(self, handles: Sequence[Handle], readers: Sequence[str]) -> list[list[Handle]]:
        """One more hold on each block that this process reads, for each other rank, which takes and frees it itself.

        Returns:
            Handles by reader, and for each of them by block.

        Raises:
            StaleHandleError: as ``take``; or there are not enough holds left, and then none is taken.
        """
        with self.changing() as table:
            for handle in handles:
                self._check(table, handle)
            free = table.holds - int(np.count_nonzero(table.state))
            if free < len(handles) * len(readers):
                needed = f"{len(handles)} blocks for {len(readers)} more ranks"
                raise StaleHandleError(f"the pool has {free} holds left; {needed} need {len(handles) * len(readers)}")
            return [[self._share(table, handle, reader) for handle in handles] for reader in readers]

    def _share(self, table: Table, handle: Handle, reader: str) -> Handle:
        detail = table.detail[handle.slot]
        who = (self.owner, reader, detail["rid"].decode(), int(detail["attempt"]))
        row = ledger.hold(table, table.cells.block[handle.slot], who, HoldState.SHARED)
        assert row is not None
        return self._handle(table, row)

    def free(self, handle: Handle) -> bool:
        """Give a hold up. ``False`` when that was done before, or another process reads the block by now."""
        with self.changing() as table:
            if not self.holds(table, handle) or self._is_read_elsewhere(table, handle):
                return False
            self._drop(table, handle.slot)
        return True

    def free_if(self, info: BlockInfo) -> bool:
        """Give a hold up only if it is still in the state, and the hands, that ``info`` saw."""
        with self.changing() as table:
            row = info.handle.slot
            same = self.holds(table, info.handle) and table.state[row] == info.state
            if not same or table.detail["reader"][row].decode() != info.reader:
                return False
            self._drop(table, row)
            table.numbers[Number.ORPHANS] += 1
        return True

    def abandon_all(self, keep: Collection[Handle] = ()) -> int:
        """Give up whatever this process has in the pool and no ticket owns, for one that was interrupted anywhere.

        An exception from a signal handler may come before a verb's answer has arrived: then blocks, a place in the line
        or a flight are held by somebody who lives and does not know of them.

        Args:
            keep: blocks that stay, because their bytes are looked at.

        Returns:
            How many holds were given up.
        """
        self._map.settle()
        kept = {handle.generation for handle in keep}
        with self.changing() as table:
            writing = np.flatnonzero(table.state == HoldState.WRITING)
            mine = writing[table.detail["owner"][writing] == self.owner.encode()].tolist()
            rows = [row for row in mine if table.cells.generation[row] not in kept]
            for row in rows:
                self._drop(table, row)
            line.leave_all(table, self.owner)
            cache.end_flights(table, self.owner)
        return len(rows)

    def _drop(self, table: Table, row: int) -> None:
        ledger.drop(table, row)
        cache.trim(table, self.data_bytes)

    # the line

    def join_line(self, length: int) -> int:
        """Wait for room behind everybody else; the turn to allocate with."""
        with self.changing() as table:
            table.numbers[Number.WAITS] += 1
            return line.join(table, length, self.owner)

    def leave_line(self, turn: int, waited_s: float) -> None:
        """Wait no longer."""
        with self.changing() as table:
            line.leave(table, turn)
            table.numbers[Number.WAITED_MS] += round(waited_s * 1000)

    def waiting(self) -> list[Waiter]:
        """Everybody who waits for room, first to last."""
        with self.locked() as table:
            return line.waiting(table)

    def drop_waiter(self, waiter: Waiter) -> bool:
        """Take one who has died out of the line; ``False`` when it has left by itself."""
        with self.changing() as table:
            return line.leave(table, waiter.turn)

    # looking

    def blocks(self) -> list[BlockInfo]:
        """Every hold."""
        with self.locked() as table:
            return [self._info(table, row) for row in table.state.nonzero()[0].tolist()]

    def is_current(self, handle: Handle) -> bool:
        """Whether a handle still leads to its block."""
        with self.locked() as table:
            return self.holds(table, handle)

    def count(self, number: int, more: int = 1) -> None:
        """Add to one of the pool's counters."""
        with self.changing() as table:
            table.numbers[number] += more

    def stats(self) -> PoolStats:
        with self.locked() as table:
            numbers = table.numbers
            cached = numbers[Number.CACHED_BYTES]
            return PoolStats(
                data_bytes=self.data_bytes,
                used_bytes=int(table.length[table.taken > 0].sum()) - cached,
                cached_bytes=cached,
                pinned_bytes=int(table.length[(table.pinned > 0) & (table.refs == 0)].sum()),
                blocks=int((table.refs > 0).sum()),
                entries=int((table.entry > 0).sum()),
                waiting=numbers[Number.WAITING],
                counters={name: numbers[at] for name, at in COUNTERS.items()},
            )

    def is_in_place(self) -> bool:
        """Whether the pool is still the one that others find under its name. If not, this process must start anew."""
        return self._map.is_in_place()

    def close(self) -> None:
        self._map.close()

    def changing(self) -> AbstractContextManager[Table]:
        """The table, to change it; see ``mapping``."""
        return self._map.changing()

    def locked(self) -> AbstractContextManager[Table]:
        """The table, to look at it."""
        return self._map.locked()

    def block_of(self, table: Table, row: int, *, read_only: bool = False) -> Block:
        """The block behind a hold, as this process sees it."""
        return self._block(self._handle(table, row), read_only=read_only)

    def bytes_in(self, start: int, length: int) -> bytes:
        """A copy of some bytes of the data."""
        return self._map.data[start : start + length]

    def _block(self, handle: Handle, *, read_only: bool = False) -> Block:
        memory = memoryview(self._map.data)[handle.offset : handle.offset + handle.length]
        return Block(handle, memory.toreadonly() if read_only else memory, self._map.address + handle.offset)

    def _handle(self, table: Table, row: int) -> Handle:
        cells = table.cells
        slot = cells.block[row]
        return Handle(self.id, row, cells.offset[slot], cells.length[slot], cells.generation[row])

    def holds(self, table: Table, handle: Handle) -> bool:
        """Whether a handle still names a hold of this pool."""
        cells, row = table.cells, handle.slot
        if handle.pool != self.id or not 0 <= row < table.holds or cells.generation[row] != handle.generation:
            return False
        slot = cells.block[row]  # a ticket that names other bytes is broken, and is not shown them
        return bool(cells.state[row]) and (cells.offset[slot], cells.length[slot]) == (handle.offset, handle.length)

    def _is_read_elsewhere(self, table: Table, handle: Handle) -> bool:
        # A worker that never heard that its ticket was parked, or a scheduler whose lease has lapsed, must not pull
        # the memory away from under the one that holds the ticket now.
        if table.cells.state[handle.slot] < HoldState.READING:
            return False
        reader: bytes = table.detail["reader"][handle.slot]
        return reader != self.owner.encode()

    def _check(self, table: Table, handle: Handle) -> None:
        if not self.holds(table, handle):
            raise StaleHandleError(f"slot {handle.slot}, generation {handle.generation}, is no longer in the pool")

    def _info(self, table: Table, row: int) -> BlockInfo:
        detail = table.detail[row]
        texts = (detail["owner"].decode(), detail["reader"].decode(), detail["rid"].decode())
        state = HoldState(int(table.state[row]))
        return BlockInfo(self._handle(table, row), state, *texts, int(detail["attempt"]), float(detail["since"]))
