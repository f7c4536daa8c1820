"""The log-mel spectrogram, computed by torch in float32 as Hugging Face's feature extractor does it.

Its own error in a quiet band beside a loud one is larger than the tolerance that is asked of us, so only the same
arithmetic is near enough: a better transform would be further from what models were trained on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from processors.log_mel.folder import Hearing

FLOOR = 1e-10  # power below which a band counts as silent
RANGE = 8.0  # decades kept below the loudest band of a recording
TOP_HZ = 8000.0  # of the highest band, whatever the rate is

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]


class LogMel:
    """The spectrogram's constant tables, made once, and the transform that uses them."""

    def __init__(self, hearing: Hearing) -> None:
        self._hearing = hearing
        self._window = torch.hann_window(hearing.window)
        self._filters = torch.from_numpy(mel_filters(hearing)).to(torch.float32).T

    def write(self, samples: Float32Array, out: npt.NDArray[Any]) -> None:
        """Fill ``out``, ``float32 [bands, frames]``, from at most as many samples as are heard."""
        decades = self._decades(samples)
        heard = decades.shape[1]
        target = torch.from_numpy(out)
        target[:, heard:] = math.log10(FLOOR)  # no need to transform the digital silence behind a recording
        target[:, :heard] = decades
        # None further than RANGE below the peak, and all near [-1, 1].
        torch.maximum(target, decades.max() - RANGE, out=target)
        target.add_(4.0).div_(4.0)

    def _decades(self, samples: Float32Array) -> torch.Tensor:
        """Power by band and frame, as its decimal logarithm, up to the first frame of silence."""
        hearing = self._hearing
        silence = min(hearing.window, hearing.samples - len(samples))  # as much as the last frame reaches into
        waveform = torch.zeros(len(samples) + silence)
        waveform[: len(samples)] = torch.from_numpy(np.array(samples, np.float32))
        spectrum = torch.stft(waveform, hearing.window, hearing.hop, window=self._window, return_complex=True)
        power = (spectrum[:, : hearing.frames].abs() ** 2).contiguous()
        return torch.clamp(self._filters @ power, min=FLOOR).log10()


def mel_filters(hearing: Hearing) -> Float64Array:
    """Slaney's triangular filters, each of unit area: ``[window // 2 + 1, bands]``."""
    edges = _hertz(np.linspace(0.0, _mel(TOP_HZ), hearing.bands + 2))
    bins = np.linspace(0.0, hearing.rate_hz / 2, hearing.window // 2 + 1)
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
