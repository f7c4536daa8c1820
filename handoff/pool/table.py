"""The pool's table: what the head of the file says, column by column. Pure over a mapped buffer.

Columns lie one after another, so that a search reads contiguous memory. The truth is in four of them: a block's
``offset`` and ``length``, a hold's ``state``, and a block's ``entry``. A state is written last when something is taken
and first when it is given up; all else can be worked out again (``ledger.repair``) when a process dies in between.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = b"FOREBAY\x00"
VERSION = 4
PAGE = 4096
ALIGNMENT = 64
RID_BYTES = 192  # a tenant of 63 characters, a slash, and a request of 128
OWNER_BYTES = 64
KEY_BYTES = 32

LEAST_SLOTS, MOST_SLOTS = 4096, 65536
_BYTES_A_SLOT = 256 << 10  # a picture of 256x192 pixels in float32; smaller ones are rare
_HOLDS_A_SLOT = 2  # one that is read, and one that waits, for every block
WAITERS = 256
FLIGHTS = 1024


class HoldState(IntEnum):
    """Who answers for a hold on a block: nobody, the worker that writes or found it, its ticket, the scheduler that
    reads it, or another rank of that scheduler.
    """

    FREE = 0
    WRITING = 1
    PARKED = 2
    READING = 3
    SHARED = 4


class Number:
    """Which is which of the numbers in the head that change: first what the pool works with, then what it counted, then
    the process that took the lock last.

    Plain integers: the members of an enumeration cost more to look up than the numbers to change.
    """

    DIRTY = 0
    GENERATION = 1
    CLOCK = 2
    BLOCKS = 3
    CACHE_BUDGET = 4
    CACHED_BYTES = 5
    WAITING = 6
    HITS = 7
    MISSES = 8
    ATTACHES = 9
    EVICTIONS = 10
    WAITS = 11
    WAITED_MS = 12
    COPIED_BYTES = 13
    LATE_RESULTS = 14
    ORPHANS = 15

    HOLDER = 16


NUMBERS = 17
COUNTERS = {
    name.lower(): at for name, at in vars(Number).items() if name.isupper() and Number.HITS <= at < Number.HOLDER
}
"""The counters by name, and where each stands."""

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("slots", "<u4"),
        ("data_offset", "<u8"),
        ("data_bytes", "<u8"),
        ("id", "S32"),
        ("installation", "S32"),
        ("checksum", "<u4"),
    ]
)
NUMBERS_AT = 512  # in the head's page, and not covered by the checksum
_DETAIL_STRUCT = struct.Struct(f"<{OWNER_BYTES}s{OWNER_BYTES}s{RID_BYTES}sId")
DETAIL = np.dtype(
    [
        ("owner", f"S{OWNER_BYTES}"),
        ("reader", f"S{OWNER_BYTES}"),
        ("rid", f"S{RID_BYTES}"),
        ("attempt", "<u4"),
        ("since", "<f8"),
    ]
)
WAITER = np.dtype([("turn", "<u8"), ("length", "<u8"), ("since", "<f8"), ("owner", f"S{OWNER_BYTES}")])
FLIGHT = np.dtype([("serial", "<u8"), ("since", "<f8"), ("owner", f"S{OWNER_BYTES}")])


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """``size`` rounded up to the alignment of blocks."""
    return -(-size // alignment) * alignment


def slots_for(data_bytes: int) -> int:
    """How many blocks the table of a pool of that size can name."""
    return max(LEAST_SLOTS, min(MOST_SLOTS, data_bytes // _BYTES_A_SLOT))


def _columns(slots: int) -> list[tuple[str, np.dtype[Any], int]]:
    """Name, element type and length of every column, in their order in the file."""
    holds = _HOLDS_A_SLOT * slots
    u8, u4, u1 = np.dtype("<u8"), np.dtype("<u4"), np.dtype("u1")
    return [
        ("taken", u1, slots),
        ("entry", u1, slots),
        ("pinned", u1, slots),
        ("state", u1, holds),
        ("offset", u8, slots),
        ("length", u8, slots),
        ("refs", u4, slots),
        ("tag", u8, slots),
        ("key", np.dtype(("u1", KEY_BYTES)), slots),
        ("used", u8, slots),
        ("note_start", u8, slots),
        ("note_length", u4, slots),
        ("starts", u8, slots + 1),
        ("ends", u8, slots + 1),
        ("generation", u8, holds),
        ("block", u4, holds),
        ("lapses", u4, holds),
        ("detail", DETAIL, holds),
        ("waiters", WAITER, WAITERS),
        ("flights", FLIGHT, FLIGHTS),
        ("flight_tag", u8, FLIGHTS),
        ("flight_key", np.dtype(("u1", KEY_BYTES)), FLIGHTS),
    ]


def table_bytes(slots: int) -> int:
    """Size of head and table, in whole pages."""
    size = PAGE
    for _, dtype, count in _columns(slots):
        size = aligned(size) + dtype.itemsize * count
    return aligned(size, PAGE)


@dataclass(frozen=True, slots=True)
class PoolIdentity:
    """What the head says for ever. ``installation`` names those who may open the pool; empty for anybody."""

    id: str
    installation: str
    slots: int
    data_offset: int
    data_bytes: int


class Cells:
    """Columns of plain numbers, one at a time: a memoryview hands out Python integers, at a fifth of the price of an
    array's scalars.
    """

    taken: memoryview
    entry: memoryview
    pinned: memoryview
    state: memoryview
    offset: memoryview
    length: memoryview
    refs: memoryview
    used: memoryview
    generation: memoryview
    block: memoryview
    lapses: memoryview
    starts: memoryview
    ends: memoryview

    def __init__(self, table: Table) -> None:
        for name in self.__annotations__:
            setattr(self, name, memoryview(getattr(table, name)))


class Table:
    """The columns over a writable buffer. The caller holds the pool's lock around everything.

    Attributes:
        taken, offset, length, refs: of a block: whether it is one, where it lies, how many holds it has.
        entry, pinned, tag, key, used, note_start, note_length: of a block that is also a cache entry.
        starts, ends: of the blocks, in the order of their offsets; ``ends[0]`` is 0 and ``starts[blocks]`` the end of
            the data, so that gap ``i`` lies from ``ends[i]`` to ``starts[i]``.
        starts_at, ends_at: where these two columns lie in the buffer.
        state, generation, block, lapses, detail: of a hold; ``lapses`` counts the leases that its ticket has outlived.
        waiters: who waits for room; ``turn`` 0 is a free row.
        flights, flight_tag, flight_key: what is being made for the cache; ``serial`` 0 is a free row.
        cells: the columns of plain numbers again, for one row at a time.
        numbers: see ``Number``.
    """

    taken: npt.NDArray[np.uint8]
    entry: npt.NDArray[np.uint8]
    pinned: npt.NDArray[np.uint8]
    state: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.uint64]
    length: npt.NDArray[np.uint64]
    refs: npt.NDArray[np.uint32]
    tag: npt.NDArray[np.uint64]
    key: npt.NDArray[np.uint8]
    used: npt.NDArray[np.uint64]
    note_start: npt.NDArray[np.uint64]
    note_length: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.uint64]
    ends: npt.NDArray[np.uint64]
    generation: npt.NDArray[np.uint64]
    block: npt.NDArray[np.uint32]
    lapses: npt.NDArray[np.uint32]
    detail: npt.NDArray[Any]
    waiters: npt.NDArray[Any]
    flights: npt.NDArray[Any]
    flight_tag: npt.NDArray[np.uint64]
    flight_key: npt.NDArray[np.uint8]

    def __init__(self, buffer: Any, slots: int) -> None:
        self.buffer = buffer
        self.slots = slots
        self.holds = _HOLDS_A_SLOT * slots
        self.header = np.frombuffer(buffer, HEADER, 1)
        self.numbers = memoryview(buffer)[NUMBERS_AT : NUMBERS_AT + 8 * NUMBERS].cast("Q")
        self._at: dict[str, int] = {}
        at = PAGE
        for name, dtype, count in _columns(slots):
            at = aligned(at)
            self._at[name] = at
            column = np.frombuffer(buffer, dtype.base, count * int(np.prod(dtype.shape)), at)
            setattr(self, name, column.reshape(count, *dtype.shape))
            at += dtype.itemsize * count
        self.starts_at, self.ends_at = self._at["starts"], self._at["ends"]
        self.cells = Cells(self)

    def close(self) -> None:
        """Drop every view of the buffer."""
        self.__dict__.clear()

    def free_slot(self) -> int | None:
        """A block that is none."""
        return self._first_zero("taken", self.slots)

    def free_hold(self) -> int | None:
        return self._first_zero("state", self.holds)

    def _first_zero(self, column: str, count: int) -> int | None:
        at = self._at[column]
        found = self.buffer.find(b"\x00", at, at + count)
        return found - at if found >= 0 else None

    def shift(self, column: int, source: int, target: int, count: int) -> None:
        """Move ``count`` numbers of 64 bits within a column; an array would copy them twice where the places overlap.

        Args:
            column: where it lies in the buffer, in bytes.
            source: from which number.
            target: to which.
            count: how many numbers.
        """
        self.buffer.move(column + 8 * target, column + 8 * source, 8 * count)

    def write_detail(self, row: int, who: tuple[str, str, str, int], since: float) -> None:
        """Owner, reader, request and attempt of a hold."""
        owner, reader, rid, attempt = who
        at = self._at["detail"] + row * DETAIL.itemsize
        _DETAIL_STRUCT.pack_into(self.buffer, at, owner.encode(), reader.encode(), rid.encode(), attempt, since)

    def next_generation(self) -> int:
        """A number that no hold, flight or turn of this pool has had."""
        self.numbers[Number.GENERATION] += 1
        return self.numbers[Number.GENERATION]

    def tick(self) -> int:
        """The next moment of the clock by which entries age."""
        self.numbers[Number.CLOCK] += 1
        return self.numbers[Number.CLOCK]

    def write_identity(self, identity: PoolIdentity) -> None:
        head = self.header[0]
        head["magic"], head["version"], head["slots"] = MAGIC, VERSION, identity.slots
        head["data_offset"], head["data_bytes"] = identity.data_offset, identity.data_bytes
        head["id"], head["installation"] = identity.id.encode(), identity.installation.encode()
        head["checksum"] = checksum(self.header)


def checksum(header: npt.NDArray[Any]) -> int:
    """Of all that the head says for ever."""
    return zlib.crc32(header.tobytes()[: HEADER.fields["checksum"][1]])  # type: ignore[index]


class OtherReleaseError(ValueError):
    """A pool of another release; whose it is can be read all the same."""

    def __init__(self, version: int, installation: str) -> None:
        super().__init__(f"a pool of version {version}; this release reads {VERSION}")
        self.installation = installation


def read_identity(buffer: Any) -> PoolIdentity:
    """Read the head of a pool, before anything else of it is believed.

    Raises:
        OtherReleaseError: another release's.
        ValueError: not a pool, or damaged.
    """
    header = np.frombuffer(buffer, HEADER, 1)
    head = header[0]
    if head["magic"] != MAGIC.rstrip(b"\x00"):
        raise ValueError("not a feature pool")
    # The fields of the head stand where they stand in every release, so that none takes a stranger's pool for its own.
    installation = head["installation"].decode(errors="replace")
    if head["version"] != VERSION:
        raise OtherReleaseError(int(head["version"]), installation)
    if head["checksum"] != checksum(header):
        raise ValueError("the header of the pool is damaged")
    numbers = (int(head[name]) for name in ("slots", "data_offset", "data_bytes"))
    return PoolIdentity(head["id"].decode(), installation, *numbers)
