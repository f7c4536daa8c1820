"""The work space of one call: memory for one block of tokens, and the views that each block shape needs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from processors.qwen_vl.geometry import CHANNELS


class Space:
    """The memory of one call's blocks, and the views of it that each block shape needs."""

    def __init__(self, block: tuple[int, int], token: tuple[int, ...]) -> None:
        self._token = token
        size = block[0] * block[1] * int(np.prod(token))
        self._bytes = np.empty(size, np.uint8)
        self._values = np.empty(size, np.float32)
        self._stages: dict[tuple[int, int], Stage] = {}

    def stage(self, rows: int, columns: int) -> Stage:
        """Views for a block of ``rows`` x ``columns`` tokens; made once, for a view costs as much as a small copy."""
        stage = self._stages.get((rows, columns))
        if stage is None:
            stage = self._stages[rows, columns] = Stage(self._bytes, self._values, (rows, columns, *self._token))
        return stage


class Stage:
    """Views of the memory for one block shape.

    Attributes:
        rows: the gathered bytes, a view for each row of patches in a token.
        bytes, values: the same bytes, and the float32 they become, flat.
        patches: the values as ``[patch, patch * patch * channels]``.
        channels: the values with the channel first and a broadcast axis for the temporal copies.
    """

    __slots__ = ("bytes", "channels", "patches", "rows", "values")

    def __init__(self, data: npt.NDArray[np.uint8], values: npt.NDArray[np.float32], shape: tuple[int, ...]) -> None:
        size = int(np.prod(shape))
        rows, columns, merge, _, patch, line = shape
        self.bytes, self.values = data[:size], values[:size]
        self.rows = [self.bytes.reshape(shape)[:, :, row] for row in range(merge)]
        self.patches = torch.from_numpy(self.values).view(-1, patch * line)
        pixels = self.values.reshape(rows, columns, merge, merge, patch * patch, CHANNELS)
        self.channels = pixels.swapaxes(-1, -2)[..., None, :]
