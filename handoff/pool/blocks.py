"""A block of the pool as one process holds it, and the arrays laid over it."""

from __future__ import annotations

import math
import traceback
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dtypes import DType
from forebay.errors import ForebayError
from forebay.ticket import ArrayAt, Handle
from handoff.pool.table import aligned


class LiveViewError(ForebayError):
    """A block cannot be given back while an array over it is alive; somebody kept one."""


def forget_frames(error: BaseException | None) -> None:
    """Empty the frames of an exception that was dealt with: what they looked at is to be given back now."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


class Block:
    """Bytes of the pool, writable for the worker that allocated them and read-only for a scheduler."""

    def __init__(self, handle: Handle, memory: memoryview, address: int) -> None:
        self.handle = handle
        self.address = address
        """Where the block begins in this process' memory."""
        self._memory: memoryview | None = memory
        self._roots: list[weakref.ref[npt.NDArray[Any]]] = []
        self._taken = 0

    def array(self, at: ArrayAt) -> npt.NDArray[Any]:
        """The array that a ticket names, without a copy.

        Raises:
            ValueError: it does not lie within the block.
        """
        return self._view(at.start, at.dtype, at.shape)

    def bytes_at(self, start: int, length: int) -> bytes:
        """A copy of some of the block's bytes.

        Raises:
            ValueError: they do not lie within the block.
        """
        if self._memory is None or start < 0 or start + length > self.handle.length:
            raise ValueError(f"{length} bytes at {start} do not lie in a block of {self.handle.length} bytes")
        return bytes(self._memory[start : start + length])

    def write(self, data: bytes) -> int | None:
        """Put some bytes behind what has been carved, and say where; ``None`` when they do not fit."""
        carved = self.carve((len(data),), DType.UINT8)
        if carved is None:
            return None
        carved[0][:] = np.frombuffer(data, np.uint8)
        return carved[1]

    def carve(self, shape: Sequence[int], dtype: DType) -> tuple[npt.NDArray[Any], int] | None:
        """The next 64-byte aligned array of the block and where it starts; ``None`` when it does not fit."""
        if self._memory is None or self._memory.readonly:
            return None
        start = self._taken
        end = start + math.prod(shape) * dtype.itemsize
        if end > self.handle.length:
            return None
        self._taken = aligned(end)
        return self._view(start, dtype, tuple(shape)), start

    def seal(self) -> None:
        """Nothing more is written: whoever looks from now on looks at what others may be reading."""
        if self._memory is not None:
            self._memory = self._memory.toreadonly()

    def _view(self, start: int, dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count = math.prod(shape)
        if self._memory is None or start < 0 or start + count * dtype.itemsize > self.handle.length:
            raise ValueError(f"{count} {dtype} at {start} do not lie in a block of {self.handle.length} bytes")
        root = np.frombuffer(self._memory, dtype.carrier, count, start)
        # NumPy lets a memoryview go while arrays over it live, so we watch them ourselves: every view, slice and
        # tensor made of this array keeps its root.
        self._roots.append(weakref.ref(root))
        return root.reshape(shape)

    def release(self) -> None:
        """Let go of the mapping. Safe to call twice.

        Raises:
            LiveViewError: an array over the block is still referenced.
        """
        if any(root() is not None for root in self._roots):
            raise LiveViewError(f"an array over the block of slot {self.handle.slot} is still referenced")
        self._memory = None
