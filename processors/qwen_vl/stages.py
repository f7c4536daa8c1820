"""A block of tokens on its way from gathered bytes to what its feature holds: one stage for each element type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from forebay import DType
from processors.qwen_vl.geometry import CHANNELS

Memory = Sequence[npt.NDArray[Any]]
Table = npt.NDArray[np.float32] | None


class PixelStage:
    """``uint8``: the bytes as they were gathered; the reader normalises them and makes the temporal copies.

    Attributes:
        elements: types of the memory a block passes through, from bytes to what the feature holds.
        rows: the gathered bytes, a view for each row of patches in a token.
        finished: what goes into the feature, with the channel first and a broadcast axis for the temporal copies.
    """

    elements: ClassVar[tuple[DType, ...]] = (DType.UINT8,)

    def __init__(self, memory: Memory, shape: tuple[int, ...]) -> None:
        """Make the views of ``memory``, flat arrays by ``elements``, for a block of ``shape``.

        Args:
            memory: at least as large as the block.
            shape: ``[token rows, token columns, merge, merge, patch, patch * channels]``.
        """
        rows, columns, merge, _, patch, _ = shape
        self._parts = [part[: math.prod(shape)] for part in memory]
        gathered = self._parts[0].reshape(shape)
        self.rows = [gathered[:, :, row] for row in range(merge)]
        pixels = self._parts[-1].reshape(rows, columns, merge, merge, patch * patch, CHANNELS)
        self.finished = pixels.swapaxes(-1, -2)[..., None, :]

    def finish(self, mean: torch.Tensor, std: torch.Tensor, table: Table = None) -> None:
        """Bring the gathered bytes into the memory behind ``finished``, with a patch's constants, ``float32``.

        Args:
            mean: of each value of a patch.
            std: likewise.
            table: what each byte becomes before; ``None`` leaves it as it is.
        """


class FloatStage(PixelStage):
    """``float32``: normalised."""

    elements: ClassVar[tuple[DType, ...]] = (DType.UINT8, DType.FLOAT32)

    def __init__(self, memory: Memory, shape: tuple[int, ...]) -> None:
        super().__init__(memory, shape)
        self._patches = torch.from_numpy(self._parts[1]).view(-1, math.prod(shape[-2:]))

    def finish(self, mean: torch.Tensor, std: torch.Tensor, table: Table = None) -> None:
        if table is None:
            np.copyto(self._parts[1], self._parts[0])
        else:
            np.take(table, self._parts[0], out=self._parts[1], mode="clip")  # no byte is outside; it spares a buffer
        # Subtract, then divide: a fused or reciprocal form rounds differently from the reference.
        self._patches.sub_(mean).div_(std)


class HalfStage(FloatStage):
    """``bfloat16``: normalised, then rounded to nearest even; NaN stays NaN."""

    elements = (DType.UINT8, DType.FLOAT32, DType.BFLOAT16)

    def __init__(self, memory: Memory, shape: tuple[int, ...]) -> None:
        super().__init__(memory, shape)
        self._rounded = torch.from_numpy(self._parts[2]).view(torch.bfloat16).view(self._patches.shape)

    def finish(self, mean: torch.Tensor, std: torch.Tensor, table: Table = None) -> None:
        super().finish(mean, std, table)
        self._rounded.copy_(self._patches)


STAGES: dict[DType, type[PixelStage]] = {
    DType.FLOAT32: FloatStage,
    DType.BFLOAT16: HalfStage,
    DType.UINT8: PixelStage,
}
