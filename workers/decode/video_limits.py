"""How large a video may be, checked by its header and its index before it is decoded."""

from __future__ import annotations

from forebay.errors import Rejected

MAX_DURATION_S = 3600.0
MAX_FRAMES = 216_000  # an hour at 60 a second
MAX_FRAME_PIXELS = 8192 * 4320  # a frame of 8K
MAX_SAMPLED_PIXELS = 1 << 29  # of all frames that a family asks for, 1.6 GB as RGB; what a worker may hold


def check_duration(seconds: float, param: str) -> None:
    """Refuse a longer one.

    Raises:
        Rejected: ``video_too_long``, with both lengths.
    """
    if seconds > MAX_DURATION_S:
        message = f"{param} lasts {seconds:.1f} s; the limit is {MAX_DURATION_S:.0f} s"
        raise Rejected("video_too_long", message, param=param)


def check_frames(frames: int, param: str) -> None:
    """Refuse more frames.

    Raises:
        Rejected: ``video_too_long``, with both numbers.
    """
    if frames > MAX_FRAMES:
        raise Rejected("video_too_long", f"{param} has {frames} frames; the limit is {MAX_FRAMES}", param=param)


def check_size(width: int, height: int, param: str) -> None:
    """Refuse larger frames, and those without a pixel.

    Raises:
        Rejected: ``video_too_large``, with both numbers, or ``damaged_video``.
    """
    if width < 1 or height < 1:
        raise Rejected("damaged_video", f"{param}: the video has frames of {width}x{height} pixels", param=param)
    pixels = width * height
    if pixels > MAX_FRAME_PIXELS:
        message = f"{param} has frames of {pixels} pixels; the limit is {MAX_FRAME_PIXELS}"
        raise Rejected("video_too_large", message, param=param, status=413)


def check_sampled(frames: int, width: int, height: int, param: str) -> None:
    """Refuse more pixels than a worker is to hold at once.

    Raises:
        Rejected: ``video_too_large``, with both numbers.
    """
    pixels = frames * width * height
    if pixels > MAX_SAMPLED_PIXELS:
        message = f"{param}: {frames} frames of {width}x{height} are {pixels} pixels; the limit is {MAX_SAMPLED_PIXELS}"
        raise Rejected("video_too_large", message, param=param, status=413)
