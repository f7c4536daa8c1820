"""The pool's allocation table: which bytes are taken, by whom, for which request. Pure over a mapped array.

Columns lie one after another, so that the search for a gap reads contiguous memory. A slot's state is written last
when it is taken and first when it is freed: whatever dies in between leaves either a free slot or a whole one.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

MAGIC = b"FOREBAY\x00"
VERSION = 1
SLOTS = 4096
PAGE = 4096
ALIGNMENT = 64
RID_BYTES = 128
OWNER_BYTES = 64


class SlotState(IntEnum):
    """Who answers for a block: nobody, the worker that writes it, its ticket, or the scheduler that reads it."""

    FREE = 0
    WRITING = 1
    PARKED = 2
    READING = 3


HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("slots", "<u4"),
        ("data_offset", "<u8"),
        ("data_bytes", "<u8"),
        ("id", "S32"),
        ("checksum", "<u4"),
        ("generation", "<u8"),  # counts on for ever; not covered by the checksum
    ]
)
DETAIL = np.dtype(
    [
        ("owner", f"S{OWNER_BYTES}"),
        ("reader", f"S{OWNER_BYTES}"),
        ("rid", f"S{RID_BYTES}"),
        ("attempt", "<u4"),
        ("since", "<f8"),
    ]
)


def table_bytes(slots: int = SLOTS) -> int:
    """Size of header and table, in whole pages."""
    raw = PAGE + slots * (1 + 3 * 8) + slots * DETAIL.itemsize
    return -(-raw // PAGE) * PAGE


def aligned(size: int) -> int:
    """``size`` rounded up to the alignment of blocks."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class PoolIdentity:
    """What the header says for ever."""

    id: str
    slots: int
    data_offset: int
    data_bytes: int


class Table:
    """The columns of the table over a writable buffer. The caller holds the pool's lock around every method."""

    def __init__(self, buffer: Any, slots: int = SLOTS) -> None:
        self.header = np.frombuffer(buffer, HEADER, 1)
        at = PAGE
        self.generation = self._column(buffer, at, np.dtype("<u8"), slots)
        self.offset = self._column(buffer, at + 8 * slots, np.dtype("<u8"), slots)
        self.length = self._column(buffer, at + 16 * slots, np.dtype("<u8"), slots)
        self.state = self._column(buffer, at + 24 * slots, np.dtype("u1"), slots)
        self.detail = self._column(buffer, at + 25 * slots, DETAIL, slots)

    @staticmethod
    def _column(buffer: Any, offset: int, dtype: np.dtype[Any], slots: int) -> npt.NDArray[Any]:
        return np.frombuffer(buffer, dtype, slots, offset)

    def write_identity(self, identity: PoolIdentity) -> None:
        head = self.header[0]
        head["magic"], head["version"], head["slots"] = MAGIC, VERSION, identity.slots
        head["data_offset"], head["data_bytes"] = identity.data_offset, identity.data_bytes
        head["id"] = identity.id.encode()
        head["generation"] = 0
        head["checksum"] = self._checksum()

    def identity(self) -> PoolIdentity:
        """Read the header.

        Raises:
            ValueError: not a pool, another release's, or damaged.
        """
        head = self.header[0]
        if head["magic"] != MAGIC.rstrip(b"\x00"):
            raise ValueError("not a feature pool")
        if head["version"] != VERSION:
            raise ValueError(f"a pool of version {head['version']}; this release reads {VERSION}")
        if head["checksum"] != self._checksum():
            raise ValueError("the header of the pool is damaged")
        return PoolIdentity(head["id"].decode(), int(head["slots"]), int(head["data_offset"]), int(head["data_bytes"]))

    def _checksum(self) -> int:
        return zlib.crc32(self.header.tobytes()[: HEADER.fields["checksum"][1]])  # type: ignore[index]

    def next_generation(self) -> int:
        self.header["generation"] += 1
        return int(self.header["generation"][0])

    def first_gap(self, size: int, data_bytes: int) -> int | None:
        """Offset of the first gap that holds ``size`` bytes; neighbouring gaps are one by construction."""
        used = np.flatnonzero(self.state)
        if not used.size:
            return 0 if size <= data_bytes else None
        order = used[np.argsort(self.offset[used])]
        starts = self.offset[order].astype(np.int64)
        ends = starts + self.length[order].astype(np.int64)
        before = np.concatenate(([0], ends))
        after = np.concatenate((starts, [data_bytes]))
        fits = np.flatnonzero(after - before >= size)
        return int(before[fits[0]]) if fits.size else None

    def free_slot(self) -> int | None:
        slot = int(np.argmin(self.state))
        return slot if self.state[slot] == SlotState.FREE else None

    def used_bytes(self) -> int:
        return int(self.length[self.state != SlotState.FREE].sum())
