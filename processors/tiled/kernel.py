"""A picture to its tiles, each normalised where it lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from processors.pixels.kernel import Planes
from processors.pixels.resize import Pixels, resize
from processors.tiled.folder import Settings
from processors.tiled.grids import Canvas


class Kernel:
    """The pixel path of one model. Holds constants only."""

    def __init__(self, settings: Settings, *, whole_first: bool) -> None:
        self._settings = settings
        self._whole_first = whole_first
        self._planes = Planes(settings.normalisation, settings.resample)

    def write(self, pixels: Pixels, canvas: Canvas, out: npt.NDArray[Any]) -> None:
        """Fill ``out``, ``float32 [tiles, 3, height, width]``, from ``uint8 [h, w, 3]``."""
        high, wide = self._settings.tile
        painted = self._painted(pixels, canvas)
        first = int(canvas.whole and self._whole_first)
        for number in range(canvas.rows * canvas.columns):
            top, left = number // canvas.columns * high, number % canvas.columns * wide
            self._planes.write(painted[top : top + high, left : left + wide], out[first + number])
        if canvas.whole:
            self._planes.write(self._resized(pixels, high, wide), out[0 if self._whole_first else -1])

    def _painted(self, pixels: Pixels, canvas: Canvas) -> Pixels:
        """The picture in the middle of its tiles; what it leaves is black."""
        resized = self._resized(pixels, canvas.height, canvas.width)
        height, width = canvas.rows * self._settings.tile[0], canvas.columns * self._settings.tile[1]
        if resized.shape[:2] == (height, width):
            return resized
        painted = np.zeros((height, width, 3), np.uint8)
        top, left = (height - canvas.height) // 2, (width - canvas.width) // 2
        painted[top : top + canvas.height, left : left + canvas.width] = resized
        return painted

    def _resized(self, pixels: Pixels, height: int, width: int) -> Pixels:
        return resize(pixels, height, width, self._settings.resample, self._settings.kernel)
