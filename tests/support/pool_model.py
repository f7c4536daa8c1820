"""What the pool promises, in plain Python: blocks, holds, entries, flights and the line, without a byte of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from forebay.ticket import Handle
from handoff.pool import Flight, HoldState
from handoff.pool.table import ALIGNMENT, aligned

_SMALL_SHARE = 1024


@dataclass(eq=False)
class ModelBlock:
    """One run of bytes, all of them ``byte``; an entry of the cache while it has a key."""

    offset: int
    length: int
    byte: int
    key: bytes | None = None
    is_pinned: bool = False
    used: int = 0


@dataclass(eq=False)
class ModelHold:
    block: ModelBlock
    state: HoldState
    owner: str
    reader: str
    rid: str

    @property
    def holder(self) -> str:
        """Whose death or whose word ends it; nobody's while a ticket owns it."""
        if self.state is HoldState.PARKED:
            return ""
        return self.owner if self.state is HoldState.WRITING else self.reader


@dataclass
class ModelPool:
    """Says beforehand what the pool will answer."""

    size: int
    slots: int
    is_alive: Callable[[str], bool]
    budget: int
    blocks: list[ModelBlock] = field(default_factory=list)
    holds: dict[Handle, ModelHold] = field(default_factory=dict)
    line: list[tuple[int, str, int]] = field(default_factory=list)
    flights: dict[bytes, tuple[Flight, str]] = field(default_factory=dict)
    clock: int = 0

    # blocks

    def allocate(self, lengths: Iterable[int], byte: Callable[[], int]) -> list[ModelBlock] | None:
        """The blocks, where they will lie, if the pool will give them; the entries that must go for them go."""
        sizes = [aligned(length) for length in lengths]
        new: list[ModelBlock] = []
        for number, size in enumerate(sizes):
            offset = self._place(size, len(new))
            if offset is None and self._can_make_room(sizes[number:], len(new)):
                while offset is None and self._evict_one():
                    offset = self._place(size, len(new))
            if offset is None:
                self.blocks = [block for block in self.blocks if block not in new]
                return None
            new.append(ModelBlock(offset, size, byte()))
            self.blocks.append(new[-1])
        return new

    def _place(self, size: int, new: int) -> int | None:
        fitting = [(at, room) for at, room in self.gaps() if room >= size]
        if not fitting or len(self.blocks) == self.slots or not self._holds_left(new):
            return None
        if size * _SMALL_SHARE < self.size:
            at, room = fitting[-1]
            return at + room - size
        return fitting[0][0]

    def gaps(self, without: Sequence[ModelBlock] = ()) -> list[tuple[int, int]]:
        """Runs of free bytes, first to last, once some blocks are gone."""
        at, gaps = 0, []
        for block in sorted(set(self.blocks) - set(without), key=lambda block: block.offset):
            gaps.append((at, block.offset - at))
            at = block.offset + block.length
        return [*gaps, (at, self.size // ALIGNMENT * ALIGNMENT - at)]

    def _holds_left(self, new: int = 0) -> int:
        return 2 * self.slots - len(self.holds) - new

    def _can_make_room(self, sizes: Sequence[int], new: int) -> bool:
        rooms = [room for _, room in self.gaps(without=self._may_go())]
        return self._holds_left(new) > 0 and max(rooms) >= max(sizes) and sum(rooms) >= sum(sizes)

    def is_held(self, block: ModelBlock) -> bool:
        return any(hold.block is block for hold in self.holds.values())

    # holds

    @property
    def is_out_of_holds(self) -> bool:
        return not self._holds_left()

    def can_share(self, handles: Sequence[Handle], readers: Sequence[str]) -> bool:
        """Whether there are holds enough."""
        return self._holds_left() >= len(handles) * len(readers)

    def may_free(self, handle: Handle, who: str) -> bool:
        """Whether the pool will let ``who`` give up that hold."""
        hold = self.holds.get(handle)
        return hold is not None and (hold.state < HoldState.READING or hold.reader == who)

    def drop(self, handle: Handle) -> None:
        block = self.holds.pop(handle).block
        if not self.is_held(block):
            if block.key is None:
                self.blocks.remove(block)
            else:
                block.used = self._tick()
        self.trim()

    # entries

    def entry(self, key: bytes) -> ModelBlock | None:
        return next((block for block in self.blocks if block.key == key), None)

    def entries(self) -> list[ModelBlock]:
        """The least recently used first."""
        return sorted((block for block in self.blocks if block.key), key=lambda block: block.used)

    def enter(self, block: ModelBlock, key: bytes) -> None:
        if self.entry(key) is None:
            block.key, block.used = key, self._tick()

    def forget(self, block: ModelBlock) -> None:
        block.key, block.is_pinned = None, False
        if not self.is_held(block):
            self.blocks.remove(block)

    def trim(self) -> None:
        while sum(block.length for block in self._idle()) > self.budget and self._evict_one(self.budget):
            pass

    def _idle(self) -> list[ModelBlock]:
        return [block for block in self.entries() if not self.is_held(block)]

    def _may_go(self) -> list[ModelBlock]:
        return [block for block in self._idle() if not block.is_pinned]

    def _evict_one(self, larger_than: int | None = None) -> bool:
        idle = self._may_go()
        large = [block for block in idle if larger_than is not None and block.length > larger_than]
        for block in (large or idle)[:1]:
            self.forget(block)
        return bool(idle)

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    # the line

    def may_go(self, turn: int) -> bool:
        """Whether nobody alive is before that turn; the dead before it leave the line."""
        while self.line and self.line[0][0] != turn and not self.is_alive(self.line[0][1]):
            self.line.pop(0)
        return not self.line or self.line[0][0] == turn

    def leave(self, turn: int) -> None:
        self.line = [waiter for waiter in self.line if waiter[0] != turn]

    # who may be swept

    def is_orphan(self, hold: ModelHold, spoken_for: set[str]) -> bool:
        """A writer's hold ends with the writer, a rank's with the rank, others with their ticket, unless read."""
        if hold.state is HoldState.WRITING:
            return not self.is_alive(hold.owner)
        if hold.state is HoldState.SHARED:
            return not self.is_alive(hold.reader)
        if hold.state is HoldState.READING and self.is_alive(hold.reader):
            return False
        return hold.rid not in spoken_for
