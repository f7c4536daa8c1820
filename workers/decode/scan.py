"""What a video is, from its header and its packets: how many frames it shows, when, how large, which way up.

Packets are counted because headers leave the number out, or have it wrong; none is decoded but those of the first
frame, which alone tells which way up it stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, pairwise

import av
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from forebay.errors import Rejected
from forebay.media import Clip
from workers.decode.container import AVI, MOV, demuxer_of, open_video, video_errors
from workers.decode.cut import is_cut
from workers.decode.entry import NotSoundError, entry_test
from workers.decode.route import Route
from workers.decode.upright import Upright
from workers.decode.video_limits import MAX_FRAMES, check_duration, check_frames, check_size

_FALLBACK_FPS = 24.0  # of one frame that says nothing; Hugging Face takes the same
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Scan:
    """A video that has been looked through.

    Attributes:
        times_s: when each frame is shown, ascending.
        upright: how its frames are made so.
        announced: frames that the header promises, 0 where it promises none.
        is_cut: whether the file ends before what it promises.
        is_exact: whether the number of packets is that of frames, so that fewer frames mean damage.
        route: how to decode less than everything, where that is known to come out alike.
    """

    clip: Clip
    times_s: tuple[float, ...]
    upright: Upright
    announced: int = 0
    is_cut: bool = False
    is_exact: bool = True
    route: Route | None = None

    def shortened(self, frames: int) -> Scan:
        """The same, now that the decoder has shown how many frames there are."""
        clip = replace(self.clip, frames=frames, fps=self.clip.fps * frames / self.clip.frames)
        return replace(self, clip=clip, times_s=self.times_s[:frames], is_exact=True, route=None)

    def salvaged(self, frames: int) -> Scan:
        """The same, of a damaged video of which so many frames decode: it ends where the first of the others began."""
        frames = min(frames, len(self.times_s))  # a damaged packet may give two
        end = self.times_s[frames] - self.times_s[0] if frames < len(self.times_s) else self.clip.duration_s
        announced = max(self.announced, frames)
        clip = replace(self.clip, frames=frames, duration_s=end, announced_frames=announced)
        return replace(self, clip=clip, times_s=self.times_s[:frames], is_cut=False, is_exact=True, route=None)


def scan_video(data: bytes, param: str) -> Scan:
    """Look through a video in a container.

    Raises:
        Rejected: empty, unrecognised, damaged, without a video, or too large in any way.
    """
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    demuxer = demuxer_of(data)
    with open_video(data, param) as (container, stream), video_errors(param):
        context = stream.codec_context
        check_size(context.width, context.height, param)
        check_frames(stream.frames, param)
        check_duration((container.duration or 0) / _MICROSECONDS, param)
        packets = _Packets(context.name, bytes(context.extradata or b""))
        first = packets.read(container, stream)
        check_frames(packets.count, param)
        if first is None or not packets.shown:
            raise Rejected("damaged_video", f"{param}: no frame of the video could be decoded", param=param)
        times, end = _times(packets, container, stream, from_zero=demuxer == AVI)
        check_duration(end - times[0], param)
        upright = Upright.of(first)
        width, height = upright.size(first.width, first.height)
        clip = Clip(len(times), _fps(stream, times, end), end - times[0], width, height, upright.rotation)
        cut = packets.broke or packets.count < _listed(stream, demuxer) or is_cut(data)
        announced = _listed(stream, demuxer) or round((container.duration or 0) / _MICROSECONDS * clip.fps)
        route = None if cut else packets.route()
        return Scan(clip, tuple(times), upright, max(announced, len(times)), cut, demuxer == MOV, route)


def _listed(stream: VideoStream, demuxer: str | None) -> int:
    """Packets that there should be: of an MP4 without those that its edit list leaves out."""
    return min(stream.frames, len(stream.index_entries)) if demuxer == MOV else stream.frames


class _Packets:
    """The packets of one stream, as they come."""

    def __init__(self, codec: str, extradata: bytes) -> None:
        self.shown: list[tuple[int | None, int]] = []
        """Presentation time and duration of every packet whose frame is shown, in units of the stream's time base."""
        self.count = 0
        self.broke = False
        """Whether the demuxer found its end before the file's."""
        self._is_vp8 = codec == "vp8"
        self._is_entry = entry_test(codec, extradata)
        self._positions: list[int] = []
        self._entries: list[tuple[int, int]] = []

    def read(self, container: InputContainer, stream: VideoStream) -> av.VideoFrame | None:
        """Count them all, or one more than are allowed; the first frame."""
        first: av.VideoFrame | None = None
        try:
            for packet in islice(container.demux(stream), MAX_FRAMES + 2):
                self._note(packet)
                if first is None:
                    first = next(iter(packet.decode()), None)
        except (av.error.InvalidDataError, av.error.EOFError):
            self.broke = True
        return first

    def _note(self, packet: Packet[VideoStream]) -> None:
        if not packet.size:
            return  # the last one, which stands for the end
        self.count += 1
        self.broke |= packet.is_corrupt
        self._note_entry(packet)
        if not packet.is_discard and not (self._is_vp8 and not _is_shown(packet)):
            self.shown.append((packet.dts if packet.pts is None else packet.pts, packet.duration or 0))
            self._positions.append(self.count - 1)

    def _note_entry(self, packet: Packet[VideoStream]) -> None:
        if self._is_entry is None:
            return
        try:
            if packet.pts is None:  # frames could not be told by their time
                raise NotSoundError
            if self._is_entry(memoryview(packet)):
                self._entries.append((self.count - 1, packet.pts))
        except NotSoundError:
            self._is_entry = None
            self._entries.clear()

    def route(self) -> Route | None:
        """How to decode less than everything."""
        times = [(position, pts) for position, (pts, _) in zip(self._positions, self.shown, strict=True)]
        return Route.of([(position, pts) for position, pts in times if pts is not None], self._entries)


def _is_shown(packet: Packet[VideoStream]) -> bool:
    """Whether a frame of VP8 is one to be seen, and not only one to be predicted from (RFC 6386, 9.1)."""
    return bool(bytes(memoryview(packet)[:1])[0] & 0x10)


def _times(
    packets: _Packets, container: InputContainer, stream: VideoStream, *, from_zero: bool
) -> tuple[list[float], float]:
    """When each frame is shown, and when the last one ends, in seconds since the file begins."""
    base = stream.time_base or Fraction(1, _MICROSECONDS)
    rate = stream.average_rate or Fraction(_FALLBACK_FPS)
    if any(pts is None for pts, _ in packets.shown):
        return [float(number / rate) for number in range(len(packets.shown))], float(len(packets.shown) / rate)
    shown = sorted((pts, duration) for pts, duration in packets.shown if pts is not None)
    # An AVI counts from the first frame to be decoded, which is not the first to be shown.
    start = shown[0][0] * base if from_zero else Fraction(container.start_time or 0, _MICROSECONDS)
    ticks = [pts for pts, _ in shown]
    last = shown[-1][1] * base or _usual_gap(ticks) * base or 1 / rate
    return [float(tick * base - start) for tick in ticks], float(ticks[-1] * base + last - start)


def _usual_gap(ticks: list[int]) -> int:
    gaps = sorted(later - earlier for earlier, later in pairwise(ticks))
    return gaps[len(gaps) // 2] if gaps else 0


def _fps(stream: VideoStream, times: list[float], end: float) -> float:
    """The header's rate where it explains the times as they are rounded; else the average of the times themselves."""
    duration, rate = end - times[0], float(stream.average_rate or 0)
    if rate > 0 and abs(len(times) / rate - duration) <= 2 * float(stream.time_base or 0):
        return rate
    return len(times) / duration if duration > 0 else _FALLBACK_FPS
