"""Audio bytes to mono float32 samples at the rate a processor asks for."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from forebay.errors import Rejected

MAX_DURATION_S = 600.0  # what vLLM allows; a small Opus file can hold hours
MAX_SAMPLES = 600 * 96_000 * 2  # over all channels, 461 MB decoded; a small FLAC file can hold 30 times that
_ANY_LENGTH = b"\xff\xff\xff\xff"


def decode_audio(data: bytes, rate_hz: int, param: str) -> npt.NDArray[np.float32]:
    """Decode one recording to ``float32 [n]``, its channels averaged.

    Raises:
        Rejected: empty, unrecognised, damaged or too long.
    """
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    try:
        with soundfile.SoundFile(io.BytesIO(with_open_end(data))) as file:
            check_size(file.frames, file.samplerate, file.channels, param)
            # The number is told because some telephone codecs cannot be searched for their end.
            samples, rate = file.read(file.frames, dtype="float32", always_2d=True), file.samplerate
    except (soundfile.SoundFileError, ValueError) as error:
        message = f"{param}: unsupported or damaged audio"
        raise Rejected("unsupported_audio", message, param=param) from error
    if not np.isfinite(samples).all():
        raise Rejected("damaged_audio", f"{param}: the audio holds NaN or infinity", param=param)
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    if rate != rate_hz:
        mono = soxr.resample(mono, rate, rate_hz)
    if not len(mono):
        raise Rejected("empty_media", f"{param}: empty audio, 0 samples", param=param)
    return np.ascontiguousarray(mono, np.float32)


def check_size(frames: int, rate_hz: int, channels: int, param: str) -> None:
    """Refuse what the header promises, before any of it is decoded."""
    seconds, samples = frames / rate_hz, frames * channels
    if seconds > MAX_DURATION_S:
        message = f"{param} lasts {seconds:.1f} s; the limit is {MAX_DURATION_S:.0f} s"
        raise Rejected("audio_too_long", message, param=param)
    if samples > MAX_SAMPLES:
        message = f"{param} has {samples} samples in {channels} channels; the limit is {MAX_SAMPLES}"
        raise Rejected("audio_too_large", message, param=param, status=413)


def with_open_end(data: bytes) -> bytes:
    """A WAV written to a pipe says that it holds 0 bytes of samples; they reach to its end."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return data
    at = 12
    while at + 8 < len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"data":
            return data if size or _is_chunk(data[at + 8 :]) else data[: at + 4] + _ANY_LENGTH + data[at + 8 :]
        at += 8 + size + size % 2
    return data


def _is_chunk(rest: bytes) -> bool:
    """Whether another chunk of the file follows, and nothing else."""
    return len(rest) >= 8 and 8 + int.from_bytes(rest[4:8], "little") == len(rest)
