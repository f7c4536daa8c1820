"""Animated WebP as a video. Pillow draws its frames; their times are read off the file's own chunks."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
from PIL import Image as Pillow

from forebay.errors import Rejected
from forebay.media import Clip
from workers.decode.cut import is_cut
from workers.decode.image import on_white
from workers.decode.quiet import quiet
from workers.decode.scan import Scan
from workers.decode.upright import Pixels, Upright
from workers.decode.video_limits import check_duration, check_frames, check_size

_SHORTEST_MS = 100  # for a frame that is to be shown for no time, as browsers do


def is_animated_webp(data: bytes) -> bool:
    """Whether a file is a WebP that moves."""
    return data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8X" and bool(data[20:21] and data[20] & 0x02)


def scan_webp(data: bytes, param: str) -> Scan:
    """Look through an animated WebP.

    Raises:
        Rejected: damaged, or too large in any way.
    """
    width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    check_size(width, height, param)
    durations = list(_durations_ms(data))
    check_frames(len(durations), param)
    if not durations:
        raise Rejected("damaged_video", f"{param}: the animation has no frame", param=param)
    *starts, end = (total / 1000 for total in accumulate(durations, initial=0))
    check_duration(end, param)
    clip = Clip(len(durations), len(durations) / end, end, width, height)
    return Scan(clip, tuple(starts), Upright(), len(durations), is_cut(data))


def _durations_ms(data: bytes) -> Iterator[int]:
    """How long each frame is shown."""
    at = 12
    while at + 8 <= len(data):
        if data[at : at + 4] == b"ANMF" and at + 24 <= len(data):
            yield int.from_bytes(data[at + 20 : at + 23], "little") or _SHORTEST_MS
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8 + size + size % 2


def webp_frames(data: bytes) -> Iterator[Callable[[], Pixels]]:
    """Its frames in order, each drawn in full."""
    with quiet(), Pillow.open(io.BytesIO(data), formats=("WEBP",)) as image:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            image.load()
            yield lambda: np.ascontiguousarray(on_white(image.convert("RGBA")).convert("RGB"))
