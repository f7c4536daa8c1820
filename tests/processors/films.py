"""Videos for the tests, made of pictures, with times of our choosing."""

from collections.abc import Sequence

import numpy as np

import forebay
from tests.processors.pictures import landscape, noise


def film(count: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """``uint8 [count, height, width, 3]``: grain and landscapes in turn, every frame another."""
    draw = (noise, landscape)
    return np.stack([draw[number % 2](height, width, seed=seed + number) for number in range(count)])


def as_video(
    frames: np.ndarray,
    indices: Sequence[int] = (),
    *,
    fps: float = 30.0,
    times_s: Sequence[float] = (),
    param: str = "video_data",
) -> forebay.Video:
    """The frames of a clip that ``indices`` name; all of them, where none is named."""
    taken = tuple(indices) or tuple(range(len(frames)))
    count, height, width, _ = frames.shape
    clip = forebay.Clip(count, fps, count / fps, width, height)
    times = tuple(times_s) or tuple(index / fps for index in taken)
    return forebay.Video(frames[list(taken)], taken, times, clip, "sha256:0", 1, param)


def clip(frames: int, fps: float = 30.0) -> forebay.Clip:
    """One of which only its length matters."""
    return forebay.Clip(frames, fps, frames / fps, 64, 48)
