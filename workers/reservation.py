"""The memory of one request in the pool: reserved before the work, written in place, parked or given back whole."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dtypes import DType
from forebay.errors import Rejected
from forebay.processor import Allocate
from forebay.ticket import ArrayAt, Handle
from handoff.pool import Block, LiveViewError, Pool
from handoff.pool.table import aligned
from workers.room import Room

_SLACK_BYTES = 64 * 1024  # token ids and positions of an ordinary prompt, or what lies beside a cached feature
_SLACK_SHARE = 256  # and of a large image: 32 bytes a token, against several KiB of features behind it


class Reservation:
    """Blocks for one attempt at one request. Usually one block holds everything, or one each cached item.

    Args:
        pool: the node's pool, writable.
        rid: the request.
        attempt: its current attempt.
        give_up_at: ``time.monotonic()`` after which waiting for room ends.
        is_wanted: whether the request still lives; one that does not stops waiting.
    """

    def __init__(
        self, pool: Pool, rid: str, attempt: int, give_up_at: float, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self._pool = pool
        self._room = Room(pool, rid, attempt, give_up_at, is_wanted)
        self._blocks: list[Block] = []
        self._kept: list[Lease] = []
        self.copied_bytes = 0

    @property
    def handles(self) -> tuple[Handle, ...]:
        return tuple(block.handle for block in self._blocks)

    @property
    def waited_s(self) -> float:
        """How long this request has waited for room."""
        return self._room.waited_s

    def reserve(self, feature_bytes: int) -> None:
        """Take one block for all features that are foreseen, and for what lies beside them."""
        if feature_bytes:
            self._take([with_slack(feature_bytes)])

    def take_now(self, sizes: Sequence[int]) -> list[Block] | None:
        """A block of each size, all or none, without waiting; ``None`` when there is no room now."""
        self._check_total(sizes)
        blocks = self._room.take_now(sizes)
        self._blocks += blocks or []
        return blocks

    def wait_for(self, sizes: Sequence[int]) -> list[Block]:
        """A block of each size, waited for in line. Whoever waits here holds nothing that others could wait for."""
        assert not self._blocks
        return self._take(sizes)

    def give_back(self, block: Block) -> None:
        """A block that was not needed after all."""
        self._blocks.remove(block)
        self._kept += _closed([Lease(self._pool, block, owned=True)])

    def give_back_all(self) -> None:
        """Every block, and every hold on what others have made; the caller looks at none of it any more."""
        blocks, self._blocks = self._blocks, []
        self._kept += _closed([Lease(self._pool, block, owned=True) for block in blocks])

    def adopt(self, block: Block) -> None:
        """A block that somebody else has written, and on which this request has a hold now."""
        self._blocks.append(block)

    def empty(self, shape: Sequence[int], dtype: DType) -> npt.NDArray[Any]:
        """An uninitialised array in the pool; the ``allocate`` of a ``Work``."""
        return self._carve(shape, dtype)[0]

    def empty_in(self, block: Block | None) -> Allocate:
        """The ``allocate`` for one item alone: in its block first, and else in blocks of its own."""

        def empty(shape: Sequence[int], dtype: DType) -> npt.NDArray[Any]:
            carved = None if block is None else block.carve(shape, dtype)
            if carved is None:
                [another] = self._take([with_slack(math.prod(shape) * dtype.itemsize)])
                carved = another.carve(shape, dtype)
                assert carved is not None
            return carved[0]

        return empty

    def settle(self, array: npt.NDArray[Any], dtype: DType, block: Block | None) -> npt.NDArray[Any]:
        """The array itself where it lies in the pool; else a copy of it in the item's block, which is counted."""
        if self.find(array, dtype) is not None:
            return array
        target = self.empty_in(block)(array.shape, dtype)
        np.copyto(target, array)
        self.copied_bytes += array.nbytes
        return target

    def place(self, array: npt.NDArray[Any], dtype: DType) -> ArrayAt:
        """Where an array lies in the pool; one that lies elsewhere, or in steps, is copied in, and the copy counted."""
        at = self.find(array, dtype)
        if at is None:
            at = self.put(array, dtype)
            self.copied_bytes += array.nbytes
        return at

    def put(self, array: npt.NDArray[Any], dtype: DType) -> ArrayAt:
        """Copy what lies beside the features, such as token ids."""
        target, at = self._carve(array.shape, dtype)
        np.copyto(target, array)
        return at

    def find(self, array: npt.NDArray[Any], dtype: DType) -> ArrayAt | None:
        """Where an array lies in the pool; ``None`` when it lies elsewhere, or in steps."""
        address = array.__array_interface__["data"][0]
        for number, block in enumerate(self._blocks):
            start = address - block.address
            if array.flags.c_contiguous and 0 <= start <= block.handle.length - array.nbytes:
                return ArrayAt(number, start, dtype, tuple(array.shape))
        return None

    def block(self, at: ArrayAt) -> Block:
        """The block in which an array lies."""
        return self._blocks[at.block]

    def park(self) -> None:
        """Hand every block over to the ticket."""
        for block in self._blocks:
            self._pool.park(block.handle)

    def let_go(self) -> list[Lease]:
        """End this process' hold on blocks that a ticket owns now; what is still looked at comes back."""
        return self._close(owned=False)

    def free(self) -> list[Lease]:
        """Give every block back to the pool; what is still looked at comes back, and stays taken until it is not."""
        return self._close(owned=True)

    def _close(self, *, owned: bool) -> list[Lease]:
        blocks, self._blocks = self._blocks, []
        kept, self._kept = self._kept, []
        return kept + _closed([Lease(self._pool, block, owned) for block in blocks])

    def _carve(self, shape: Sequence[int], dtype: DType) -> tuple[npt.NDArray[Any], ArrayAt]:
        for number, block in enumerate(self._blocks):
            carved = block.carve(shape, dtype)
            if carved is not None:
                return carved[0], ArrayAt(number, carved[1], dtype, tuple(shape))
        self._take([with_slack(math.prod(shape) * dtype.itemsize)])
        return self._carve(shape, dtype)

    def _take(self, sizes: Sequence[int]) -> list[Block]:
        self._check_total(sizes)
        blocks = self._room.take(sizes, jumps=bool(self._blocks))
        self._blocks += blocks
        return blocks

    def _check_total(self, sizes: Sequence[int]) -> None:
        self.check_fits(sum(block.handle.length for block in self._blocks) + sum(map(aligned, sizes)))

    def check_fits(self, total: int) -> None:
        """Refuse what the pool could never hold.

        Raises:
            Rejected: with both numbers.
        """
        if total > self._pool.data_bytes:
            raise Rejected(
                "features_too_large",
                f"the features need {total} bytes; the feature pool has {self._pool.data_bytes}",
                status=413,
            )


def _closed(leases: Sequence[Lease]) -> list[Lease]:
    """Close what can be closed; the rest is still looked at."""
    kept = [lease for lease in leases if not lease.close()]
    if kept:
        gc.collect()  # a view caught in a reference cycle, of an exception's frames for example
        kept = [lease for lease in kept if not lease.close()]
    return kept


def with_slack(wanted: int) -> int:
    """Room for features of that many bytes, and for what lies beside them."""
    return aligned(wanted) + _SLACK_BYTES + wanted // _SLACK_SHARE


@dataclass(frozen=True, slots=True)
class Lease:
    """A block on its way out of this process; ``owned`` when it is to be freed as well."""

    pool: Pool
    block: Block
    owned: bool

    def close(self) -> bool:
        """Let go of the block; ``False`` while somebody still looks at it."""
        try:
            self.block.release()
        except LiveViewError:
            return False
        if self.owned:
            self.pool.free(self.block.handle)
        return True
