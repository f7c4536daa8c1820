"""The picture that everything is measured with: 1280x720, JPEG quality 90, smooth noise, about 200 kB."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 1280, 720


def jpeg(seed: int = 0) -> bytes:
    """A photo-like file; another seed gives another one of the same kind."""
    noise = np.random.default_rng(seed).integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    smooth = Image.fromarray(noise).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    smooth.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
