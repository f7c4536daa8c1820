"""Recordings that libsndfile reads: WAV, FLAC, Ogg Vorbis and Opus, MP3, AIFF and their like."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soundfile

from forebay.errors import Rejected
from workers.decode import ogg
from workers.decode.announced import announced_frames, with_open_end
from workers.decode.audio_limits import check_size, damaged
from workers.decode.quiet import quiet


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """Samples of one channel, ``float32 [n]``, at their own rate."""

    samples: npt.NDArray[np.float32]
    rate_hz: int


def read_recording(data: bytes, param: str) -> Sound:
    """Decode the whole of it, its channels averaged.

    Raises:
        Rejected: unrecognised, damaged, cut off or too long.
    """
    with _opened(data, param) as file:
        check_size(file.frames, file.samplerate, file.channels, param)
        _check_end(data, file, param)
        # Pages that are never written cost nothing, so a header that promises too much costs nothing either.
        samples = np.empty((file.frames, file.channels), np.float32)
        try:
            if file.format == "MP3":
                file.seek(0)  # as soundfile.read does; mpg123 rounds otherwise behind it, in the last bit
            # The number is told because some telephone codecs cannot be searched for their end.
            samples = file.read(file.frames, dtype="float32", always_2d=True, out=samples)
        except soundfile.SoundFileError as error:
            raise damaged(_position(file), file.frames, param) from error
        if len(samples) < file.frames:
            raise damaged(len(samples), file.frames, param)
        mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
        return Sound(mono, file.samplerate)


def outline_recording(data: bytes, param: str) -> tuple[int, int]:
    """Samples a channel and rate, from the header.

    Raises:
        Rejected: unrecognised, cut off or too long.
    """
    with _opened(data, param) as file:
        check_size(file.frames, file.samplerate, file.channels, param)
        _check_end(data, file, param)
        return file.frames, file.samplerate


@contextmanager
def _opened(data: bytes, param: str) -> Iterator[soundfile.SoundFile]:
    try:
        with quiet(), soundfile.SoundFile(io.BytesIO(with_open_end(data))) as file:
            yield file
    except (soundfile.SoundFileError, ValueError) as error:
        message = f"{param}: unsupported or damaged audio"
        raise Rejected("unsupported_audio", message, param=param) from error


def _check_end(data: bytes, file: soundfile.SoundFile, param: str) -> None:
    """Refuse a file that lacks something that it says it has; libsndfile takes what is there for the whole."""
    frames: int = file.frames
    if data[:4] == b"OggS":
        if not ogg.is_whole(data):
            ticks = 48_000 if file.subtype == "OPUS" else file.samplerate  # RFC 7845: Opus always counts at 48 kHz
            raise damaged(frames, ogg.last_position(data) * file.samplerate // ticks, param, is_cut=True)
        return
    announced = announced_frames(data, frames)
    if frames < announced:
        raise damaged(frames, announced, param, is_cut=True)


def _position(file: soundfile.SoundFile) -> int:
    try:
        position: int = file.tell()
    except soundfile.SoundFileError:
        return 0
    return position
