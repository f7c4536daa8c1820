"""Video bytes to the frames that a family asks for, and no others: those in between are decoded, never converted.

Memory is that of the frames asked for, and of the few that a codec predicts from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from billiard.exceptions import SoftTimeLimitExceeded

from forebay.errors import Rejected
from forebay.media import Clip
from handoff.reel import is_reel
from workers.decode.container import open_video, video_errors
from workers.decode.reel import reel_frames, scan_reel
from workers.decode.route import Route, routed_frames
from workers.decode.scan import Scan, scan_video
from workers.decode.upright import Pixels, Upright
from workers.decode.video_limits import check_sampled
from workers.decode.webp import is_animated_webp, scan_webp, webp_frames


class _BrokenError(Exception):
    """A decoder has given up."""


Choose = Callable[[Clip], Sequence[int]]
Picture = Callable[[], Pixels]
"""A frame that has been decoded and is not converted yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Frames of a clip, ``uint8 [n, height, width, 3]``; which they are, and when they are shown."""

    clip: Clip
    indices: tuple[int, ...]
    times_s: tuple[float, ...]
    frames: Pixels


def decode_video(data: bytes, choose: Choose, param: str, *, salvage: bool = False) -> Sampled:
    """Decode the frames that ``choose`` names.

    Args:
        data: the encoded video.
        choose: from what the clip is, the frames: at least one, ascending, each of them there.
        param: where the caller put it, for messages.
        salvage: whether a damaged one is taken for what decodes of it.

    Raises:
        Rejected: empty, unrecognised, cut off, damaged or too large; or what ``choose`` raises.
    """
    scan = _scan(data, param)
    try:
        return _sampled(data, scan, choose, param)
    except Rejected as error:
        if not salvage or error.code != "damaged_video":
            raise
        decoded = _count(_pictures(data, scan, param))
        if not decoded:
            raise
    # Everything is planned anew on what decodes: numbers, times and choice are of one clip, which is shorter.
    return _sampled(data, scan.salvaged(decoded), choose, param)


def _sampled(data: bytes, scan: Scan, choose: Choose, param: str) -> Sampled:
    if scan.is_cut:
        raise _damaged(_count(_pictures(data, scan, param)), scan, param)
    indices = _chosen(scan, choose, param)
    frames, decoded = _take(data, scan, indices, param)
    if frames is None and decoded and not scan.is_exact:
        # Nobody had promised a number, and some packets hold frames that are not shown: choose again.
        scan = scan.shortened(decoded)
        indices = _chosen(scan, choose, param)
        frames, decoded = _take(data, scan, indices, param)
    if frames is None:
        raise _damaged(decoded, scan, param)
    return Sampled(scan.clip, indices, _times(scan, indices), frames)


def outline_video(data: bytes, choose: Choose, param: str, *, salvage: bool = False) -> Sampled:
    """What ``decode_video`` would give, as far as headers and packets tell, with frames that are a view of nothing.

    Raises:
        Rejected: as there; damage within goes unnoticed.
    """
    scan = _scan(data, param)
    if scan.is_cut and salvage:
        scan = scan.salvaged(scan.clip.frames)  # as far as packets tell
    if scan.is_cut:
        message = f"{param}: the video is cut off, of {scan.announced} frames {scan.clip.frames} are there"
        raise Rejected("damaged_video", message, param=param)
    indices = _chosen(scan, choose, param)
    shape = (len(indices), scan.clip.height, scan.clip.width, 3)
    return Sampled(scan.clip, indices, _times(scan, indices), np.broadcast_to(np.zeros((), np.uint8), shape))


def _scan(data: bytes, param: str) -> Scan:
    if is_reel(data):
        return scan_reel(data, param)
    return scan_webp(data, param) if is_animated_webp(data) else scan_video(data, param)


def _times(scan: Scan, indices: Sequence[int]) -> tuple[float, ...]:
    return tuple(scan.times_s[index] for index in indices)


def _chosen(scan: Scan, choose: Choose, param: str) -> tuple[int, ...]:
    indices = tuple(choose(scan.clip))
    check_sampled(len(indices), scan.clip.width, scan.clip.height, param)
    return indices


def _take(data: bytes, scan: Scan, indices: tuple[int, ...], param: str) -> tuple[Pixels | None, int]:
    """The frames, ``None`` when the video ends before the last of them; and how many were decoded on the way."""
    if scan.route is not None and scan.route.skips(indices):
        routed = _take_routed(data, scan, scan.route, indices, param)
        if routed is not None:
            return routed, indices[-1] + 1
    frames = np.empty((len(indices), scan.clip.height, scan.clip.width, 3), np.uint8)
    decoded = taken = 0
    try:
        for picture in _pictures(data, scan, param):
            if decoded == indices[taken]:
                with video_errors(param):
                    frames[taken] = picture()
                taken += 1
                while taken < len(indices) and indices[taken] == decoded:
                    frames[taken] = frames[taken - 1]
                    taken += 1
            decoded += 1
            if taken == len(indices):
                return frames, decoded
    except _BrokenError as error:
        raise _damaged(decoded, scan, param) from error
    return None, decoded


def _take_routed(data: bytes, scan: Scan, route: Route, indices: tuple[int, ...], param: str) -> Pixels | None:
    """The frames, and of the others only those decoded that they need; ``None`` where that does not come out right."""
    frames = np.empty((len(indices), scan.clip.height, scan.clip.width, 3), np.uint8)
    converter, places = VideoReformatter(), np.asarray(indices)
    try:
        for number, frame in routed_frames(data, route, sorted(set(indices)), param):
            frames[places == number] = _picture(frame, scan.upright, scan.clip, converter)()
    except (Rejected, MemoryError, SoftTimeLimitExceeded):  # not the file's fault
        raise
    except Exception:  # noqa: BLE001 - damage, whatever it raises, is judged by who decodes everything
        return None
    return frames


def _count(pictures: Iterator[Picture]) -> int:
    """How many frames come before the decoder gives up."""
    counted = 0
    with suppress(_BrokenError):
        for _ in pictures:
            counted += 1
    return counted


def _pictures(data: bytes, scan: Scan, param: str) -> Iterator[Picture]:
    """The frames that are shown, in order.

    Raises:
        _BrokenError: the decoder can go no further.
    """
    try:
        if is_reel(data):
            yield from reel_frames(data, param)
        else:
            yield from webp_frames(data) if is_animated_webp(data) else _stream_frames(data, scan, param)
    except (Rejected, MemoryError, SoftTimeLimitExceeded):  # not the file's fault
        raise
    except Exception as error:  # a codec raises whatever its author chose; the file is to blame all the same
        raise _BrokenError from error


def _stream_frames(data: bytes, scan: Scan, param: str) -> Iterator[Picture]:
    converter = VideoReformatter()
    with open_video(data, param) as (container, stream):
        for frame in container.decode(stream):
            yield _picture(frame, scan.upright, scan.clip, converter)


def _picture(frame: av.VideoFrame, upright: Upright, clip: Clip, converter: VideoReformatter) -> Picture:
    def convert() -> Pixels:
        width, height = upright.size(clip.width, clip.height)  # a stream may change its size; the first frame's holds
        has_alpha = any(component.is_alpha for component in frame.format.components)
        kind = "rgba" if has_alpha else "rgb24"
        pixels = np.asarray(converter.reformat(frame, width, height, kind, threads=1).to_ndarray(), np.uint8)
        return upright.apply(_on_white(pixels) if has_alpha else pixels)

    return convert


def _on_white(pixels: Pixels) -> Pixels:
    """``uint8 [h, w, 4]`` composited on white, rounded to nearest."""
    colour, alpha = pixels[..., :3].astype(np.uint16), pixels[..., 3:].astype(np.uint16)
    return ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)


def _damaged(decoded: int, scan: Scan, param: str) -> Rejected:
    end = ", and the file ends too early" if scan.is_cut else ""
    message = f"{param}: the video is damaged: {decoded} of {scan.announced} frames could be decoded{end}"
    return Rejected("damaged_video", message, param=param)
