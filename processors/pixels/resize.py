"""Resizing in bytes, as Hugging Face's two backends do it on a CPU: antialiased, horizontal pass first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch.nn.functional as F  # noqa: N812  (the name torch's own documentation gives it)
from torch.utils.dlpack import from_dlpack

from processors.pixels.modes import Filter, Resample

Pixels = npt.NDArray[np.uint8]

_CHANNELS = 3


def resize(
    pixels: Pixels,
    height: int,
    width: int,
    resample: Resample = Resample.TORCHVISION,
    kernel: Filter = Filter.BICUBIC,
) -> Pixels:
    """Bring ``uint8 [h, w, 3]`` to another size; a picture that has it already is returned as it is."""
    pixels = np.ascontiguousarray(pixels)
    if pixels.shape[:2] == (height, width):
        return pixels
    if resample is Resample.PIL:
        return _with_pillow(pixels, height, width, kernel)
    return _with_torch(pixels, height, width, kernel)


def _with_torch(pixels: Pixels, height: int, width: int, kernel: Filter) -> Pixels:
    old_height, old_width, _ = pixels.shape
    # DLPack takes a read-only array in silence, and nothing here writes to it. With the batch stride spelled out
    # torch sees channels last, and spares packing its result into planes, which costs as much as the resize.
    strides = (pixels.size, 1, old_width * _CHANNELS, _CHANNELS)
    image = from_dlpack(pixels).as_strided((1, _CHANNELS, old_height, old_width), strides)
    resized = F.interpolate(image, size=(height, width), mode=kernel.value, antialias=True)
    result: Pixels = resized[0].permute(1, 2, 0).contiguous().numpy()
    return result


def _with_pillow(pixels: Pixels, height: int, width: int, kernel: Filter) -> Pixels:
    from PIL import Image

    chosen = {Filter.BICUBIC: Image.Resampling.BICUBIC, Filter.BILINEAR: Image.Resampling.BILINEAR}[kernel]
    return np.asarray(Image.fromarray(pixels).resize((width, height), chosen))
