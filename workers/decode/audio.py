"""Audio bytes to mono float32 samples at the rate a processor asks for."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from forebay.errors import Rejected

MAX_DURATION_S = 600.0  # what vLLM allows; a small Opus file can hold hours


def decode_audio(data: bytes, rate_hz: int, param: str) -> npt.NDArray[np.float32]:
    """Decode one recording to ``float32 [n]``, its channels averaged.

    Raises:
        Rejected: empty, unrecognised, damaged or too long.
    """
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            _check_duration(file.frames, file.samplerate, param)
            samples, rate = file.read(dtype="float32", always_2d=True), file.samplerate
    except soundfile.LibsndfileError as error:
        message = f"{param}: unsupported or damaged audio"
        raise Rejected("unsupported_audio", message, param=param) from error
    if not len(samples):
        raise Rejected("empty_media", f"{param}: empty audio, 0 samples", param=param)
    if not np.isfinite(samples).all():
        raise Rejected("damaged_audio", f"{param}: the audio holds NaN or infinity", param=param)
    mono = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1, dtype=np.float32)
    if rate != rate_hz:
        mono = soxr.resample(mono, rate, rate_hz)
    return np.ascontiguousarray(mono, np.float32)


def _check_duration(frames: int, rate_hz: int, param: str) -> None:
    seconds = frames / rate_hz
    if seconds > MAX_DURATION_S:
        raise Rejected(
            "audio_too_long", f"{param} lasts {seconds:.1f} s; the limit is {MAX_DURATION_S:.0f} s", param=param
        )
