"""Resizing in bytes, as torch does it on a CPU: antialiased bicubic, horizontal pass first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F  # noqa: N812  (the name torch's own documentation gives it)
from torch.utils.dlpack import from_dlpack

from processors.qwen_vl.geometry import CHANNELS

Pixels = npt.NDArray[np.uint8]


def resize(pixels: Pixels, height: int, width: int) -> Pixels:
    """Bring ``uint8 [h, w, 3]`` to another size; a picture that has it already is returned as it is."""
    pixels = np.ascontiguousarray(pixels)
    old_height, old_width, _ = pixels.shape
    if (old_height, old_width) == (height, width):
        return pixels
    # DLPack takes a read-only array in silence, and nothing here writes to it. With the batch stride spelled out
    # torch sees channels last, and spares packing its result into planes, which costs as much as the resize.
    strides = (pixels.size, 1, old_width * CHANNELS, CHANNELS)
    image = from_dlpack(pixels).as_strided((1, CHANNELS, old_height, old_width), strides)
    resized = F.interpolate(image, size=(height, width), mode="bicubic", antialias=True)
    result: Pixels = resized[0].permute(1, 2, 0).contiguous().numpy()
    return result
