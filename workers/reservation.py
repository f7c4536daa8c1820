"""The memory of one request in the pool: reserved before the work, written in place, parked or given back whole."""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dtypes import DType
from forebay.errors import Failed, Rejected
from forebay.ticket import ArrayAt, Handle
from handoff.pool import Block, LiveViewError, Pool
from handoff.pool.table import aligned

log = logging.getLogger(__name__)

_SLACK_BYTES = 64 * 1024  # token ids and positions of an ordinary prompt
_SLACK_SHARE = 256  # and of a large image: 32 bytes a token, against several KiB of features behind it
_FIRST_NAP_S, _LONGEST_NAP_S = 0.002, 0.05


class Reservation:
    """Blocks for one attempt at one request. Usually one block holds everything.

    Args:
        pool: the node's pool, writable.
        rid: the request.
        attempt: its current attempt.
        give_up_at: ``time.monotonic()`` after which waiting for room ends.
    """

    def __init__(self, pool: Pool, rid: str, attempt: int, give_up_at: float) -> None:
        self._pool = pool
        self._rid = rid
        self._attempt = attempt
        self._give_up_at = give_up_at
        self._blocks: list[Block] = []
        self.waited_s = 0.0
        self.copied_bytes = 0

    @property
    def handles(self) -> tuple[Handle, ...]:
        return tuple(block.handle for block in self._blocks)

    def reserve(self, feature_bytes: int) -> None:
        """Take one block for all features that are foreseen, and for what lies beside them."""
        if feature_bytes:
            self._blocks.append(self._take(feature_bytes))

    def empty(self, shape: Sequence[int], dtype: DType) -> npt.NDArray[Any]:
        """An uninitialised array in the pool; the ``allocate`` of a ``Work``."""
        return self._carve(shape, dtype)[0]

    def place(self, array: npt.NDArray[Any], dtype: DType) -> ArrayAt:
        """Where an array lies in the pool; one that lies elsewhere, or in steps, is copied in, and the copy counted."""
        address = array.__array_interface__["data"][0]
        for number, block in enumerate(self._blocks):
            start = address - block.address
            if array.flags.c_contiguous and 0 <= start <= block.handle.length - array.nbytes:
                return ArrayAt(number, start, dtype, tuple(array.shape))
        target, at = self._carve(array.shape, dtype)
        np.copyto(target, array)
        self.copied_bytes += array.nbytes
        return at

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
        leases = [Lease(self._pool, block, owned) for block in self._blocks]
        self._blocks = []
        kept = [lease for lease in leases if not lease.close()]
        if kept:
            gc.collect()  # a view caught in a reference cycle, of an exception's frames for example
            kept = [lease for lease in kept if not lease.close()]
        return kept

    def _carve(self, shape: Sequence[int], dtype: DType) -> tuple[npt.NDArray[Any], ArrayAt]:
        for number, block in enumerate(self._blocks):
            carved = block.carve(shape, dtype)
            if carved is not None:
                return carved[0], ArrayAt(number, carved[1], dtype, tuple(shape))
        self._blocks.append(self._take(math.prod(shape) * dtype.itemsize))
        return self._carve(shape, dtype)

    def _take(self, wanted: int) -> Block:
        size = aligned(wanted) + _SLACK_BYTES + wanted // _SLACK_SHARE
        if size > self._pool.data_bytes:
            raise Rejected(
                "features_too_large",
                f"the features need {size} bytes; the feature pool has {self._pool.data_bytes}",
                status=413,
            )
        block = self._pool.allocate(size, self._rid, self._attempt)
        return block or self._wait_for(size)

    def _wait_for(self, size: int) -> Block:
        began = time.monotonic()
        log.warning("waiting for room in the pool", extra={"rid": self._rid, "size_bytes": size})
        nap = _FIRST_NAP_S
        while time.monotonic() < self._give_up_at:
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP_S)
            block = self._pool.allocate(size, self._rid, self._attempt)
            if block is not None:
                self.waited_s += time.monotonic() - began
                return block
        free = self._pool.stats().free_bytes
        message = f"no room for {size} bytes of features; {free} are free in the pool"
        raise Failed("pool_full", message, status=503, retry_after_s=5)


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
