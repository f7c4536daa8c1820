"""The picture as EfficientNet-Lite0 was trained to see it: 224 pixels square, each value between about -1 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it

SIDE = 224

# The Lite models' own: (value - 127) / 128, the same for every channel, not ImageNet's mean and deviation.
MEAN = 127.0
DEVIATION = 128.0


def write_picture(pixels: npt.NDArray[np.uint8], out: npt.NDArray[Any]) -> None:
    """Write the middle square of ``uint8 [height, width, 3]`` into ``out``, ``float32 [3, 224, 224]``."""
    target = torch.from_numpy(out)
    torch.sub(_resize(middle_square(pixels)), MEAN, out=target)
    target.div_(DEVIATION)


def middle_square(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A view of the largest centred square."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return pixels[top : top + side, left : left + side]


def _resize(square: npt.NDArray[np.uint8]) -> torch.Tensor:
    # The copy serves two ends: pixels may be read-only, which torch warns about, and the kernel wants them dense.
    tensor = torch.from_numpy(square.copy()).permute(2, 0, 1).unsqueeze(0)
    return F.interpolate(tensor, (SIDE, SIDE), mode="bilinear", antialias=True)[0]
