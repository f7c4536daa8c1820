"""Audio bytes to mono float32 samples at the rate a processor asks for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

from forebay.errors import Rejected
from workers.decode.audio_kind import is_sndfile, track_demuxer
from workers.decode.recording import outline_recording, read_recording
from workers.decode.track import outline_track, read_track


def decode_audio(data: bytes, rate_hz: int, param: str) -> npt.NDArray[np.float32]:
    """Decode one recording, or the sound of a video, to ``float32 [n]``, its channels averaged.

    Raises:
        Rejected: empty, unrecognised, damaged or too long.
    """
    sound = read_track(data, param) if _is_track(data, param) else read_recording(data, param)
    samples, rate = sound.samples, sound.rate_hz
    if not np.isfinite(samples).all():
        raise Rejected("damaged_audio", f"{param}: the audio holds NaN or infinity", param=param)
    if rate != rate_hz:
        samples = soxr.resample(samples, rate, rate_hz)
    if not len(samples):
        raise Rejected("empty_media", f"{param}: empty audio, 0 samples", param=param)
    return np.ascontiguousarray(samples, np.float32)


def audio_length(data: bytes, rate_hz: int, param: str) -> int:
    """Samples that ``decode_audio`` would give at ``rate_hz``: to one or two, of lossy sound to a frame of its codec.

    Raises:
        Rejected: empty, unrecognised, cut off, or too long.
    """
    frames, rate = outline_track(data, param) if _is_track(data, param) else outline_recording(data, param)
    return round(frames * rate_hz / rate)


def _is_track(data: bytes, param: str) -> bool:
    """Whether FFmpeg reads it, rather than libsndfile.

    Raises:
        Rejected: neither does.
    """
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    if track_demuxer(data) is not None:
        return True
    if not is_sndfile(data):
        raise Rejected("unsupported_audio", f"{param}: unsupported or unrecognised audio format", param=param)
    return False
