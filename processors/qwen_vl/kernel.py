"""Pixels to patches: resize, normalise and reorder, written straight into the feature, in one of three element types.

In float32 bit-equal to the chosen backend of Hugging Face's ``Qwen2VLImageProcessor`` on a CPU. What a reader makes of
uint8 is bit-equal to the torchvision one; of Pillow's it has the very pixels, normalised to within the last bits. Work
goes through blocks that fit the cache, so the only large array besides the feature is the resized picture, in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from forebay import DType
from processors.pixels.kernel import rescale_table
from processors.pixels.modes import Resample
from processors.pixels.resize import Pixels, resize
from processors.qwen_vl.geometry import CHANNELS, Geometry, Grid
from processors.qwen_vl.settings import Normalisation
from processors.qwen_vl.space import Space
from processors.qwen_vl.stages import STAGES

Blocks = npt.NDArray[Any]

BLOCK_BYTES = 1 << 20  # normalised values of one block; measured: smaller costs calls, larger leaves the cache


class Kernel:
    """The pixel path of one model. Holds constants only; a call leaves nothing of its picture behind.

    A kernel of videos writes every frame of a group; one of pictures writes the same frame into all of it.

    Attributes:
        normalisation: what is left to the reader of a ``uint8`` feature; ``None`` for the other element types.
    """

    def __init__(
        self,
        geometry: Geometry,
        normalisation: Normalisation,
        dtype: DType = DType.FLOAT32,
        *,
        moves: bool = False,
        resample: Resample = Resample.TORCHVISION,
    ) -> None:
        # A reader makes the copies of a still picture; the frames of a group differ, so all of them are stored.
        constants = normalisation.of_bytes(1 if moves else geometry.temporal)
        self._stored = geometry.temporal if moves or dtype is not DType.UINT8 else 1
        self.normalisation = constants if dtype is DType.UINT8 else None
        self._geometry = geometry
        self._stage = STAGES[dtype]
        self._resample = resample
        self._mean, self._std = self._tiled(constants.mean), self._tiled(constants.std)
        self._table = None
        if resample is Resample.PIL:  # brings bytes to [0, 1] first, and rounds there
            self._table = rescale_table(normalisation.rescale)
            self._mean, self._std = self._tiled(normalisation.mean), self._tiled(normalisation.std)

    def shape(self, grid: Grid) -> tuple[int, ...]:
        """Shape of a feature: ``[patches, values]``, or ``[patches, channels, values]`` of ``uint8``."""
        if self.normalisation is None:
            return grid.patches, self._geometry.patch_values
        return grid.patches, CHANNELS, self._stored * self._geometry.patch**2

    def write(self, pixels: Pixels, grid: Grid, feature: npt.NDArray[Any]) -> None:
        """Fill ``feature``, an array of ``shape(grid)``, with the patches of ``pixels``, ``uint8 [h, w, 3]``."""
        [target] = self._as_patches(feature, grid)
        self._write_picture(pixels, grid, target)

    def write_frames(self, frames: Pixels, grid: Grid, feature: npt.NDArray[Any]) -> None:
        """Fill ``feature`` with the patches of ``frames``, ``uint8 [n, h, w, 3]``; the last one fills its group."""
        temporal = self._geometry.temporal
        for group, target in enumerate(self._as_patches(feature, grid)):
            for place in range(temporal):
                number = min(group * temporal + place, len(frames) - 1)
                self._write_picture(frames[number], grid, target[..., place : place + 1, :])

    def _write_picture(self, pixels: Pixels, grid: Grid, target: Blocks) -> None:
        """Resize one picture and bring it into all the copies that ``target`` has."""
        resized = resize(pixels, grid.h * self._geometry.patch, grid.w * self._geometry.patch, self._resample)
        source = self._as_tokens(resized, grid)
        space = Space(self._stage, self._block_tokens(grid), source.shape[2:])
        for rows, columns in self._blocks(grid):
            self._write_block(source[rows, columns], target[rows, columns], space)

    def _write_block(self, source: Blocks, target: Blocks, space: Space) -> None:
        """Gather the block's bytes patch by patch, finish them, and lay them out channel by channel."""
        stage = space.stage(source.shape[0], source.shape[1])
        # One row of patches at a time: a token's rows all at once read too many lines in turn, at twice the cost.
        for row, gathered in enumerate(stage.rows):
            np.copyto(gathered, source[:, :, row])
        stage.finish(self._mean, self._std, self._table)
        np.copyto(target, stage.finished)

    def _as_tokens(self, resized: Pixels, grid: Grid) -> Blocks:
        """View a picture as ``[token row, token column, merge, merge, patch, patch * channels]``."""
        patch, merge = self._geometry.patch, self._geometry.merge
        split = resized.reshape(grid.h // merge, merge, patch, grid.w // merge, merge, patch * CHANNELS)
        return split.transpose(0, 3, 1, 4, 2, 5)

    def _as_patches(self, feature: npt.NDArray[Any], grid: Grid) -> Blocks:
        """View a feature as ``[group, token row, token column, merge, merge, channel, frame, patch * patch]``."""
        patch, merge = self._geometry.patch, self._geometry.merge
        shape = (grid.t, grid.h // merge, grid.w // merge, merge, merge, CHANNELS, self._stored, patch * patch)
        return feature.reshape(shape, copy=False)

    def _blocks(self, grid: Grid) -> Iterator[tuple[slice, slice]]:
        """Cover the token grid: several rows of a narrow picture at once, parts of a row of a wide one."""
        rows, columns = self._block_tokens(grid)
        merged = grid.merged(self._geometry.merge)
        for row in range(0, merged.h, rows):
            for column in range(0, merged.w, columns):
                yield slice(row, row + rows), slice(column, column + columns)

    def _block_tokens(self, grid: Grid) -> tuple[int, int]:
        merged = grid.merged(self._geometry.merge)
        token_bytes = CHANNELS * self._geometry.factor**2 * np.dtype(np.float32).itemsize
        room = max(1, BLOCK_BYTES // token_bytes)
        columns = min(merged.w, room)
        return min(merged.h, max(1, room // columns)), columns

    def _tiled(self, channels: tuple[float, ...]) -> torch.Tensor:
        """A channel constant for every byte of a patch, in float32."""
        return torch.tensor(channels, dtype=torch.float32).repeat(self._geometry.patch**2)
