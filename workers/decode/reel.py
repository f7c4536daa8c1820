"""A list of frames as a video: each a picture of its own, all of one size; only those that are wanted are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from forebay.errors import Rejected
from forebay.media import Clip
from handoff.reel import Reel
from workers.decode.header import image_size
from workers.decode.image import decode_image
from workers.decode.scan import Scan
from workers.decode.upright import Pixels, Upright
from workers.decode.video_limits import check_duration, check_frames, check_size


def scan_reel(data: bytes, param: str) -> Scan:
    """Look through a list of frames, by the headers of its pictures.

    Raises:
        Rejected: without a frame, of several sizes, or too large in any way; a frame that is no picture, by its place.
    """
    reel = _reel(data, param)
    check_frames(len(reel.frames), param)
    if not reel.frames:
        raise Rejected("damaged_video", f"{param}: the list has no frame", param=param)
    check_duration(len(reel.frames) / reel.fps, param)
    height, width = _size(reel, param)
    check_size(width, height, param)
    count = len(reel.frames)
    times = tuple(number / reel.fps for number in range(count))
    return Scan(Clip(count, reel.fps, count / reel.fps, width, height), times, Upright(), count)


def reel_frames(data: bytes, param: str) -> Iterator[Callable[[], Pixels]]:
    """The frames in order, none of them decoded yet."""
    for number, frame in enumerate(_reel(data, param).frames):
        yield partial(decode_image, frame, _place(param, number))


def _size(reel: Reel, param: str) -> tuple[int, int]:
    """Height and width of every frame."""
    first = image_size(reel.frames[0], _place(param, 0))
    for number, frame in enumerate(reel.frames):
        height, width = image_size(frame, _place(param, number))
        if (height, width) != first:
            message = f"{_place(param, number)} is {width}x{height} pixels, the first frame {first[1]}x{first[0]}"
            raise Rejected("unsuitable_video", message, param=_place(param, number))
    return first


def _reel(data: bytes, param: str) -> Reel:
    try:
        return Reel.unpack(data)
    except ValueError as error:
        raise Rejected("damaged_video", f"{param}: the list of frames cannot be read", param=param) from error


def _place(param: str, number: int) -> str:
    return f"{param}.frames[{number}]"
