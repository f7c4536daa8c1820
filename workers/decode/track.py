"""Sound that FFmpeg reads: AAC, Opus and their like in MP4, WebM, Matroska and AVI, also beside a video.

Only mono samples are kept, and no more of them than a recording may have, whatever its header says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import av
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream
from av.container import InputContainer

from forebay.errors import Rejected
from workers.decode.audio_kind import track_demuxer
from workers.decode.audio_limits import MAX_SAMPLES, check_size, damaged, most_frames
from workers.decode.container import container_errors, demuxer_of, open_container
from workers.decode.cut import is_cut
from workers.decode.recording import Sound

Samples = npt.NDArray[np.float32]

CODECS = frozenset(
    {"aac", "ac3", "alac", "amrnb", "amrwb", "eac3", "flac", "mp3", "mp3float", "opus", "vorbis"}
    | {f"pcm_{kind}" for kind in ("alaw", "mulaw", "u8", "s16le", "s16be", "s24le", "s24be", "s32le", "s32be")}
    | {"pcm_f32le", "pcm_f32be", "pcm_f64le", "pcm_f64be"}
)
_MICROSECONDS = 1_000_000
_SCALES = {"u8": 1 / 128, "s16": 1 / 32_768, "s32": 1 / 2_147_483_648, "s64": 1 / (1 << 63)}


def read_track(data: bytes, param: str) -> Sound:
    """Decode the first sound of a container, its channels averaged.

    Raises:
        Rejected: without sound, of another codec, damaged, cut off or too long.
    """
    with _opened(data, param) as (container, stream):
        announced = _announced(container, stream)
        check_size(announced, stream.rate, stream.channels, param)
        line = _Line(announced, param)
        is_cut = _is_cut(data)
        try:
            for frame in container.decode(stream):
                line.add(frame)
        except (av.error.InvalidDataError, av.error.EOFError) as error:
            raise damaged(line.count, announced, param, is_cut=is_cut) from error
        if is_cut:
            raise damaged(line.count, announced, param, is_cut=True)
        return Sound(line.samples, line.rate_hz or stream.rate)


def outline_track(data: bytes, param: str) -> tuple[int, int]:
    """Samples a channel and rate, from header or packets; to one frame of its codec.

    Raises:
        Rejected: without sound, of another codec, cut off or too long.
    """
    with _opened(data, param) as (container, stream):
        frames = _announced(container, stream)
        if not frames:
            ticks = sum(packet.duration or 0 for packet in container.demux(stream))
            frames = round(ticks * float(stream.time_base or 0) * stream.rate)
        check_size(frames, stream.rate, stream.channels, param)
        if _is_cut(data):
            raise damaged(0, frames, param, is_cut=True)
        return frames, stream.rate


@contextmanager
def _opened(data: bytes, param: str) -> Iterator[tuple[InputContainer, AudioStream]]:
    demuxer = track_demuxer(data)
    assert demuxer is not None, "the caller has looked"
    code = (
        "unsupported_audio" if demuxer_of(data) is None else "damaged_audio"
    )  # one that is known by two bytes may be none
    with container_errors(param, code, "recording"), open_container(data, demuxer) as container:
        stream = _stream(container, param)
        stream.codec_context.thread_count = 1
        stream.codec_context.options = {"max_samples": str(MAX_SAMPLES)}  # in one frame
        yield container, stream


def _stream(container: InputContainer, param: str) -> AudioStream:
    if not container.streams.audio:
        raise Rejected("unsupported_audio", f"{param}: the file has no sound, only other streams", param=param)
    stream = container.streams.audio[0]
    context = stream.codec_context
    name = "unknown" if context is None else context.name
    if name not in CODECS:
        raise Rejected("unsupported_audio", f"{param}: sound coded as {name} is not read", param=param)
    if stream.rate < 1 or stream.channels < 1:
        message = f"{param}: the sound has {stream.channels} channels at {stream.rate} Hz"
        raise Rejected("damaged_audio", message, param=param)
    return stream


def _announced(container: InputContainer, stream: AudioStream) -> int:
    """Samples a channel by the header; 0 where it does not say."""
    if stream.duration and stream.time_base:
        return max(0, round(stream.duration * stream.time_base * stream.rate))
    return max(0, round((container.duration or 0) * stream.rate / _MICROSECONDS))


def _is_cut(data: bytes) -> bool:
    return demuxer_of(data) is not None and is_cut(data)  # others have no length of their own


class _Line:
    """Mono samples as they come, up to as many as are allowed."""

    def __init__(self, announced: int, param: str) -> None:
        self.count = self.rate_hz = 0
        self._announced, self._param = announced, param
        self._room = np.empty(0, np.float32)

    @property
    def samples(self) -> Samples:
        return self._room[: self.count]

    def add(self, frame: av.AudioFrame) -> None:
        """Keep a frame's samples.

        Raises:
            Rejected: there are too many by now, or their rate is another one than before.
        """
        channels = frame.layout.nb_channels
        end, most = self.count + frame.samples, most_frames(frame.sample_rate, channels)
        if end > most:
            check_size(end, frame.sample_rate, channels, self._param, at_least=True)
        if self.rate_hz not in (0, frame.sample_rate):
            message = f"{self._param}: the sound changes its rate from {self.rate_hz} to {frame.sample_rate} Hz"
            raise Rejected("unsupported_audio", message, param=self._param)
        self.rate_hz = frame.sample_rate
        if end > len(self._room):
            # As much as the header says, and when it was wrong, as much as there can be: untouched pages cost nothing.
            longer = np.empty(
                most if self._room.size else max(end, min(most, self._announced + self.rate_hz)), np.float32
            )
            longer[: self.count] = self.samples
            self._room = longer
        self._room[self.count : end] = _mono(frame, channels)
        self.count = end


def _mono(frame: av.AudioFrame, channels: int) -> Samples:
    """``float32 [n]`` within [-1, 1], scaled as libsndfile does."""
    values = frame.to_ndarray()
    planes = values if frame.format.is_planar else values.reshape(-1, channels).T
    kind = frame.format.name.removesuffix("p")
    if kind == "u8":
        planes = planes.astype(np.int16) - 128
    scaled = planes.astype(np.float32) * np.float32(_SCALES.get(kind, 1))
    mono: Samples = scaled[0] if channels == 1 else scaled.mean(axis=0, dtype=np.float32)
    return mono
