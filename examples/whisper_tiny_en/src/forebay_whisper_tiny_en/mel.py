"""The log-mel spectrogram that Whisper hears: 80 mel bands, 100 frames a second, always 30 seconds.

NumPy alone, equal to transformers' NumPy reference within one float32 rounding. The Fourier transform runs in double
precision: in single, a quiet band beside a loud one is off by more than the features' whole error otherwise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

RATE_HZ = 16_000
SECONDS = 30
BANDS = 80
FFT = 400  # samples in a frame, 25 ms
HOP = 160  # samples from frame to frame, 10 ms
SAMPLES = SECONDS * RATE_HZ
FRAMES = SAMPLES // HOP

FLOOR = 1e-10  # power below which a band counts as silent
RANGE = 8.0  # decades kept below the loudest band of the recording
CHUNK = 128  # frames transformed together, so that the intermediate values stay in the processor's cache

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]


class LogMel:
    """The spectrogram's constant tables, made once, and the transform that uses them."""

    def __init__(self) -> None:
        self._window = np.hanning(FFT + 1)[:-1]  # periodic, as the reference
        self._filters = np.ascontiguousarray(mel_filters().T, dtype=np.float32)

    def write(self, samples: Float32Array, out: npt.NDArray[Any]) -> None:
        """Write the features of at most ``SAMPLES`` samples into ``out``, ``float32 [80, 3000]``."""
        padded = _pad(samples)
        heard = min(FRAMES, (len(padded) - FFT) // HOP + 1)
        self._write_power(padded, out[:, :heard])
        _scale(out, heard)

    def _write_power(self, padded: Float32Array, out: npt.NDArray[Any]) -> None:
        frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][: out.shape[1]]
        for start in range(0, out.shape[1], CHUNK):
            spectrum = np.fft.rfft(frames[start : start + CHUNK] * self._window, axis=1)
            power = spectrum.real**2 + spectrum.imag**2
            out[:, start : start + CHUNK] = self._filters @ power.astype(np.float32).T


def _scale(out: npt.NDArray[Any], heard: int) -> None:
    """Bring power to decades, none further than ``RANGE`` below the peak, and those near [-1, 1]: (decades + 4) / 4."""
    loud, silent = out[:, :heard], out[:, heard:]
    np.maximum(loud, FLOOR, out=loud)
    np.log(loud, out=loud)  # the natural logarithm, for which NumPy has a vector kernel
    silent[...] = math.log(FLOOR)  # no need to transform the digital silence behind the recording
    np.maximum(out, loud.max() - RANGE * math.log(10), out=out)
    out *= 1 / (4 * math.log(10))
    out += 1


def mel_filters() -> Float64Array:
    """Slaney's triangular filters, each of unit area: ``[FFT // 2 + 1, BANDS]``."""
    edges = _hertz(np.linspace(0.0, _mel(RATE_HZ / 2), BANDS + 2))
    bins = np.linspace(0.0, RATE_HZ / 2, FFT // 2 + 1)
    distance = edges[np.newaxis, :] - bins[:, np.newaxis]
    width = np.diff(edges)
    rising, falling = -distance[:, :-2] / width[:-1], distance[:, 2:] / width[1:]
    triangles: Float64Array = np.maximum(0.0, np.minimum(rising, falling))
    return triangles * (2.0 / (edges[2:] - edges[:-2]))


# Slaney's scale is linear up to 1 kHz, which is mel 15, and logarithmic above it: 27 mel for a factor of 6.4.
_KNEE_HZ = 1000.0
_KNEE_MEL = 15.0
_MEL_PER_HZ = _KNEE_MEL / _KNEE_HZ
_LOG_STEP = math.log(6.4) / 27.0


def _mel(hertz: float) -> float:
    """The mel of a frequency above the knee."""
    return _KNEE_MEL + math.log(hertz / _KNEE_HZ) / _LOG_STEP


def _hertz(mel: Float64Array) -> Float64Array:
    curved = _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL))
    return np.where(mel < _KNEE_MEL, mel / _MEL_PER_HZ, curved)


def _pad(samples: Float32Array) -> Float32Array:
    """The samples, as much silence as the last frame reaches into, and half a frame mirrored at both ends."""
    half, silence = FFT // 2, min(FFT, SAMPLES - len(samples))
    padded = np.zeros(half + len(samples) + silence + half, dtype=np.float32)
    padded[half : half + len(samples)] = samples
    padded[:half] = padded[2 * half : half : -1]
    padded[-half:] = padded[-half - 2 : -2 * half - 2 : -1]
    return padded
