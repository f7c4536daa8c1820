"""Videos that the tests send: encoded on the spot."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

QUIET = {"libx265": {"x265-params": "log-level=none"}}


def shades(count: int, height: int = 48, width: int = 64) -> list[np.ndarray]:
    """Frames that tell their number: each is a plain grey, eight levels lighter than the one before."""
    return [np.full((height, width, 3), 16 + 8 * number % 224, np.uint8) for number in range(count)]


def shade_of(number: int) -> int:
    """The grey of a frame of ``shades``."""
    return 16 + 8 * number % 224


def encoded(
    frames: Iterable[np.ndarray],
    codec: str = "libx264",
    kind: str = "mp4",
    *,
    rate: Fraction | int = 30,
    times_ms: Sequence[int] = (),
    rotation: int = 0,
    container: dict[str, str] | None = None,
    **options: str,
) -> bytes:
    """Frames as a file.

    ``times_ms`` gives each its own time; ``rotation`` is the display matrix's, in degrees, counterclockwise.
    """
    pixel_format = {"gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
    with (
        ordinary_priority(),
        tempfile.NamedTemporaryFile() as file,
        av.open(file.name, "w", format=kind, options=container or {}) as out,
    ):
        stream = out.add_stream(codec, rate=rate, options={**QUIET.get(codec, {}), **options})
        stream.pix_fmt = pixel_format
        if rotation:
            stream.set_display_rotation(rotation)
        for number, pixels in enumerate(frames):
            if not number:
                stream.height, stream.width = pixels.shape[:2]
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            if times_ms:
                if not number:
                    stream.codec_context.time_base = Fraction(1, 1000)
                frame.pts, frame.time_base = times_ms[number], Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
        out.close()
        return Path(file.name).read_bytes()


@contextmanager
def ordinary_priority() -> Iterator[None]:
    """SVT-AV1's encoder makes the thread that opens it a real-time one, when it is root's. All that this thread starts
    afterwards would be so too, and on a machine of few cores nobody else gets on.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    yield
    if os.sched_getscheduler(0) != before[0]:
        os.sched_setscheduler(0, *before)
