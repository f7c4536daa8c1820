"""Decoded media as a processor receives them, and the digest that says which bytes they came from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from forebay.features import Modality


def digest_of(data: bytes) -> str:
    """The identity of media bytes: ``sha256:`` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """One picture: ``pixels`` is ``uint8 [height, width, 3]``, RGB, upright, without transparency."""

    pixels: npt.NDArray[np.uint8]
    digest: str
    hash: int
    param: str = "image_data"
    """Where the caller put it, for error messages."""

    modality = Modality.IMAGE

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """One recording: ``samples`` is ``float32 [n]``, mono, at ``rate_hz``, usually within [-1, 1]."""

    samples: npt.NDArray[np.float32]
    rate_hz: int
    digest: str
    hash: int
    param: str = "audio_data"
    """Where the caller put it, for error messages."""

    modality = Modality.AUDIO

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz


Media = Image | Audio


class Identity(Protocol):
    """What is known of an item without its pixels or samples."""

    @property
    def modality(self) -> Modality: ...

    @property
    def digest(self) -> str: ...

    @property
    def hash(self) -> int: ...
