"""Bytes to a normalised picture in planes, written in place; bit-equal to either of Hugging Face's backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from processors.pixels.modes import Resample
from processors.pixels.settings import Normalisation


def rescale_table(rescale: float) -> npt.NDArray[np.float32]:
    """What each byte becomes where Pillow's backend brings it to [0, 1]: in double precision, then rounded."""
    table: npt.NDArray[np.float32] = (np.arange(256, dtype=np.float64) * rescale).astype(np.float32)
    return table


class Planes:
    """Normalises ``uint8 [h, w, 3]`` into ``float32 [3, h, w]``. Holds constants only."""

    def __init__(self, normalisation: Normalisation, resample: Resample) -> None:
        mean, std = (torch.tensor(one) for one in (normalisation.mean, normalisation.std))
        self._table = None
        if resample is Resample.PIL:
            self._table = rescale_table(normalisation.rescale)
        else:  # the reference joins scale and constants, and its sum is done in this order
            mean, std = mean * (1.0 / normalisation.rescale), std * (1.0 / normalisation.rescale)
        self._mean, self._std = mean[:, None, None], std[:, None, None]

    def write(self, pixels: npt.NDArray[np.uint8], out: npt.NDArray[Any]) -> None:
        """Fill ``out``, ``float32 [3, h, w]``, of the pixels' height and width."""
        planes = pixels.transpose(2, 0, 1)
        if self._table is None:
            np.copyto(out, planes)
        else:
            np.take(self._table, planes, out=out, mode="clip")  # no byte is outside; clipping spares a buffer
        # Subtract, then divide: a fused or reciprocal form rounds differently from the reference.
        torch.from_numpy(out).sub_(self._mean).div_(self._std)
