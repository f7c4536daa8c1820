"""Pictures for the tests, and what identifies an array."""

import hashlib
from dataclasses import replace

import numpy as np

import forebay
from forebay.media import digest_of
from processors.pixels.modes import Resample


def as_image(pixels: np.ndarray) -> forebay.Image:
    """An image item of our own making; its identity is that of its pixels."""
    return forebay.Image(pixels, digest_of(np.ascontiguousarray(pixels).tobytes()), 1)


def with_pillow(family: type) -> type:
    """A family without a folder, in the other mode of resizing."""
    defaults = replace(family.defaults, resample=Resample.PIL)
    return type(family.__name__, (family,), {"defaults": defaults})


def sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def landscape(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth colours, hard edges and some grain: what a photograph asks of a resize."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [127 + 120 * np.sin(rng.uniform(2, 40) * x + rng.uniform(2, 40) * y) for _ in range(3)]
    picture = np.stack(waves, axis=-1) + rng.normal(0, 6, (height, width, 3))
    picture[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 2, 3) * 255
    return picture.clip(0, 255).astype(np.uint8)
