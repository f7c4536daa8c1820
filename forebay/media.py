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


@dataclass(frozen=True, slots=True)
class Clip:
    """What is known of a video before its frames are decoded; a family chooses frames by it.

    Attributes:
        frames: how many are shown; counted where the header does not say.
        fps: frames a second, on average.
        duration_s: how long it is shown, with its last frame.
        width: in pixels, as a player shows it.
        height: likewise.
        rotation: by which its stored frames are turned for that, in degrees, clockwise: 0, 90, 180 or 270.
        announced_frames: of a damaged clip, how many there should have been; 0 of one that is whole.
    """

    frames: int
    fps: float
    duration_s: float
    width: int
    height: int
    rotation: int = 0
    announced_frames: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Video:
    """One video, as the frames that the family asked for: ``frames`` is ``uint8 [n, height, width, 3]``, RGB, upright.

    Attributes:
        indices: which frames of the clip they are, ascending.
        times_s: when a player shows each of them, in seconds.
        clip: the whole that they are taken from.
    """

    frames: npt.NDArray[np.uint8]
    indices: tuple[int, ...]
    times_s: tuple[float, ...]
    clip: Clip
    digest: str
    hash: int
    param: str = "video_data"
    """Where the caller put it, for error messages."""

    modality = Modality.VIDEO

    @property
    def height(self) -> int:
        return int(self.frames.shape[1])

    @property
    def width(self) -> int:
        return int(self.frames.shape[2])

    @property
    def sampled_fps(self) -> float:
        """Frames a second among those that were taken, on average."""
        return len(self.indices) / self.clip.frames * self.clip.fps


Media = Image | Audio | Video


class Identity(Protocol):
    """What is known of an item without its pixels or samples."""

    @property
    def modality(self) -> Modality: ...

    @property
    def digest(self) -> str: ...

    @property
    def hash(self) -> int: ...
