"""Media that the tests send: from installed packages, or made on the spot."""

from __future__ import annotations

import io
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image


def package_file(package: str, name: str) -> Path:
    """A file of an installed package, found without importing it."""
    spec = find_spec(package)
    assert spec is not None, f"{package} is not installed: run 'make test'"
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / name


def coffee() -> Path:
    """A cup of espresso, PNG, 600x400."""
    return package_file("skimage", "data/coffee.png")


def rocket() -> Path:
    """A rocket, JPEG, 640x427."""
    return package_file("skimage", "data/rocket.jpg")


def cat() -> Path:
    """A cat, PNG, 451x300."""
    return package_file("skimage", "data/chelsea.png")


def fox_recording() -> Path:
    """ "The quick brown fox jumps over the lazy dog.", spoken; WAV, 16 kHz."""
    return package_file("pytest_audioeval", "samples/audio/en/quick_brown_fox.wav")


def plain_png(width: int, height: int, colour: tuple[int, int, int] = (10, 20, 30)) -> bytes:
    """A picture of one colour."""
    return encoded(np.full((height, width, 3), colour, np.uint8), "PNG")


def encoded(pixels: np.ndarray, kind: str, **options: object) -> bytes:
    """Pixels as a file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def oracle_file(name: str) -> Path:
    """A file of a package that lies beside the tests' packages, because only its files are used."""
    path = Path(sys.prefix) / "oracle" / name
    assert path.exists(), f"{path} is not there: run 'make test'"
    return path
