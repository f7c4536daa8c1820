"""A container of video or sound, opened from its bytes and from nothing else.

The demuxer is chosen by the first bytes out of a fixed list, so no playlist is ever read; and whatever a container
names outside itself is not opened, because no protocol is allowed. One thread decodes: a worker has one core.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn

import av
from av.container import InputContainer
from av.video.stream import VideoStream
from billiard.exceptions import SoftTimeLimitExceeded

from forebay.errors import Rejected
from workers.decode.video_limits import MAX_FRAME_PIXELS

MOV, MATROSKA, AVI, GIF = "mov", "matroska", "avi", "gif"
CODECS = frozenset({"av1", "gif", "h264", "hevc", "libdav1d", "mjpeg", "mpeg4", "vp8", "vp9"})
_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")  # what a QuickTime file may begin with


def demuxer_of(data: bytes) -> str | None:
    """The demuxer for a file that begins so; ``None`` for everything that is not read."""
    if data[4:8] in _BOXES:
        return MOV
    if data[:4] == b"\x1aE\xdf\xa3":
        return MATROSKA
    if data[:4] == b"RIFF" and data[8:12] == b"AVI ":
        return AVI
    return GIF if data[:6] in (b"GIF87a", b"GIF89a") else None


@contextmanager
def open_video(data: bytes, param: str) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A container and its first video stream, ready to be decoded by one thread.

    Raises:
        Rejected: ``unsupported_video`` or ``damaged_video``. What is raised while it is open passes as it is.
    """
    demuxer = demuxer_of(data)
    if demuxer is None:
        raise Rejected("unsupported_video", f"{param}: unsupported or unrecognised video format", param=param)
    with video_errors(param):
        opened = open_container(data, demuxer)
    with opened as container:
        stream = _stream(container, param)
        stream.codec_context.thread_count = 1
        stream.codec_context.options = {"max_pixels": str(MAX_FRAME_PIXELS)}  # the codec's own header counts, too
        yield container, stream


def open_container(data: bytes, demuxer: str) -> InputContainer:
    """A container that reads its own bytes alone; its owner closes it.

    Raises:
        av.error.FFmpegError: it is damaged.
    """
    return av.open(io.BytesIO(data), "r", demuxer, {"protocol_whitelist": "none"}, io_open=_refuse)


def _refuse(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    raise PermissionError("a file names another one")


def _stream(container: InputContainer, param: str) -> VideoStream:
    """The first one that is no cover picture."""
    streams = [one for one in container.streams.video if not one.disposition & av.stream.Disposition.attached_pic]
    if not streams:
        raise Rejected("unsupported_video", f"{param}: the file has no video, only other streams", param=param)
    context = streams[0].codec_context
    name = context.name if context is not None else "unknown"
    if name not in CODECS:
        raise Rejected("unsupported_video", f"{param}: videos coded as {name} are not read", param=param)
    return streams[0]


def video_errors(param: str) -> AbstractContextManager[None]:
    """What a demuxer or decoder raises, as a refusal of the item."""
    return container_errors(param, "damaged_video", "video")


@contextmanager
def container_errors(param: str, code: str, what: str) -> Iterator[None]:
    """The same, for a container of anything."""
    try:
        yield
    except (Rejected, MemoryError, SoftTimeLimitExceeded):  # not the file's fault
        raise
    except Exception as error:  # a codec raises whatever its author chose; the file is to blame all the same
        raise Rejected(code, f"{param}: the {what} cannot be opened: {_said(error)}", param=param) from error


def _said(error: Exception) -> str:
    """The library's words, without what it was doing."""
    return str(getattr(error, "strerror", None) or type(error).__name__)
