"""A picture to its one size, cut from the middle, and normalised where it lies."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from processors.fixed_size.folder import Fit, Settings
from processors.pixels.kernel import Planes
from processors.pixels.resize import Pixels, resize


class Kernel:
    """The pixel path of one model. Holds constants only."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._planes = Planes(settings.normalisation, settings.resample)

    def write(self, pixels: Pixels, out: npt.NDArray[Any]) -> None:
        """Fill ``out``, ``float32 [3, height, width]``, from ``uint8 [h, w, 3]``."""
        fit, settings = self._settings.fit, self._settings
        height, width = resized_sides(fit, *pixels.shape[:2])
        resized = resize(pixels, height, width, settings.resample, settings.kernel)
        top, left = (height - fit.height) // 2, (width - fit.width) // 2
        self._planes.write(resized[top : top + fit.height, left : left + fit.width], out)


def resized_sides(fit: Fit, height: int, width: int) -> tuple[int, int]:
    """Height and width before the middle is cut out; the longer side is cut down to a whole number."""
    edge = fit.shortest_edge
    if edge is None:
        return fit.height, fit.width
    if height <= width:
        return edge, int(edge * width / height)
    return int(edge * height / width), edge
