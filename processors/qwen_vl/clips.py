"""From the size and number of a video's frames to the grid of patches that stands for it."""

from __future__ import annotations

import math

from processors.pixels.sides import check_sides
from processors.qwen_vl.geometry import Geometry, Grid


def grid_of_frames(geometry: Geometry, frames: int, height: int, width: int, param: str) -> Grid:
    """Qwen2-VL's and Qwen2.5-VL's: each frame is a picture, under limits of its own.

    Raises:
        Rejected: one side is more than 200 times the other.
    """
    return _grid(geometry, frames, geometry.grid(height, width, param))


def grid_of_clip(geometry: Geometry, frames: int, height: int, width: int, param: str) -> Grid:
    """Qwen3-VL's: the limits are those of all frames together.

    Raises:
        Rejected: one side is more than 200 times the other.
    """
    factor, temporal = geometry.factor, geometry.temporal
    check_sides(height, width, param)
    frames = max(frames, temporal)  # one frame is repeated, and counts as a group
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    rounded_height, rounded_width = (round(side / factor) * factor for side in (height, width))
    volume = round(frames / temporal) * temporal * rounded_height * rounded_width
    if volume > geometry.max_pixels:
        shrink = math.sqrt((frames * height * width) / geometry.max_pixels)
        fitted = [max(factor, math.floor(side / shrink / factor) * factor) for side in (height, width)]
    elif volume < geometry.min_pixels:
        grow = math.sqrt(geometry.min_pixels / (frames * height * width))
        fitted = [math.ceil(side * grow / factor) * factor for side in (height, width)]
    else:
        fitted = [rounded_height, rounded_width]
    return _grid(geometry, frames, Grid(1, fitted[0] // geometry.patch, fitted[1] // geometry.patch))


def _grid(geometry: Geometry, frames: int, one: Grid) -> Grid:
    """As many groups as are needed; the last frame fills the last of them."""
    return Grid(-(-frames // geometry.temporal), one.h, one.w)
