"""The transparent colour of a PNG with 16 bits a sample: Pillow keeps eight, which others may have too."""

from __future__ import annotations

import av
import numpy as np
from PIL import Image as Pillow

_PNG = b"\x89PNG\r\n\x1a\n"
_DEPTH_AT, _RGB = 24, b"\x10\x02"  # in its first chunk: 16 bits, three colours


def has_wide_key(data: bytes, image: Pillow.Image) -> bool:
    """Whether it is such a file, and names a colour."""
    is_wide = data[:8] == _PNG and data[_DEPTH_AT : _DEPTH_AT + 2] == _RGB
    return is_wide and image.mode == "RGB" and "transparency" in image.info


def unmask(data: bytes, image: Pillow.Image) -> None:
    """Give a decoded image the transparency that it has with all bits of its samples.

    Raises:
        av.error.FFmpegError: FFmpeg cannot decode what Pillow could.
    """
    context = av.CodecContext.create("png", "r")
    context.thread_count = 1
    frames = [*context.decode(av.Packet(data)), *context.decode(None)]
    opaque = frames[0].to_ndarray()[..., 3] != 0
    image.putalpha(Pillow.fromarray(opaque.astype(np.uint8) * 255))
    image.info.pop("transparency", None)
