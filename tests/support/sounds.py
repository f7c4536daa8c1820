"""Recordings in containers of their own or beside a video: encoded on the spot."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path

import av
import numpy as np

from tests.support.videos import shades

_BLOCK = 960  # samples in a frame that is sent to an encoder; 20 ms at 48 kHz


def tone(seconds: float = 1.0, rate_hz: int = 48_000, channels: int = 2) -> np.ndarray:
    """``float32 [n, channels]``: a sine, each channel a third quieter than the one before."""
    sine = np.sin(np.arange(round(seconds * rate_hz)) / 20) / 2
    return np.stack([sine * (2 / 3) ** channel for channel in range(channels)], axis=1).astype(np.float32)


def sounding(
    samples: np.ndarray,
    codec: str = "aac",
    kind: str = "mp4",
    *,
    rate_hz: int = 48_000,
    layout: str = "stereo",
    container: Mapping[str, str] | None = None,
    video: bool = False,
    **options: str,
) -> bytes:
    """Samples, ``float32 [n, channels]``, as a file; with ``video`` beside ten frames."""
    with tempfile.NamedTemporaryFile() as file:
        with av.open(file.name, "w", format=kind, options=dict(container or {})) as out:
            pictures = out.add_stream("libx264", rate=30, width=64, height=48, pix_fmt="yuv420p") if video else None
            stream = out.add_stream(codec, rate=rate_hz, layout=layout, options=options)
            if pictures is not None:
                for pixels in shades(10):
                    out.mux(pictures.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
                out.mux(pictures.encode())
            _write(samples, out, stream, rate_hz, layout)
        return Path(file.name).read_bytes()


def _write(samples: np.ndarray, out: av.container.OutputContainer, stream: object, rate_hz: int, layout: str) -> None:
    converter = av.AudioResampler(format=stream.codec_context.format, layout=layout, rate=rate_hz)
    for at in range(0, len(samples), _BLOCK):
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples[at : at + _BLOCK].T), "fltp", layout)
        frame.sample_rate, frame.pts = rate_hz, at
        for one in converter.resample(frame):
            out.mux(stream.encode(one))
    out.mux(stream.encode())


def decoded(data: bytes) -> tuple[np.ndarray, int]:
    """Everything that FFmpeg finds, ``float32 [n, channels]``, and its rate: converted by itself."""
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(container.streams.audio[0]))
    converter = av.AudioResampler(format="fltp", layout=frames[0].layout, rate=frames[0].sample_rate)
    planes = [one.to_ndarray() for frame in frames for one in converter.resample(frame)]
    return np.concatenate(planes, axis=1).T, frames[0].sample_rate
