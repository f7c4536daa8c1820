"""A feature as a picture: pixels put back from patches, tiles or bands where it has them, and the grid of its parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dtypes import DType
from forebay.features import Feature, Item
from forebay.media import Audio, Image, Media

Floats = npt.NDArray[np.float32]
Pixels = npt.NDArray[np.uint8]
_GRIDS = ("image_grid_thw", "video_grid_thw")
_WIDEST = 1600


@dataclass(frozen=True, slots=True, eq=False)
class Canvas:
    """``pixels`` is ``uint8 [h, w, 3]``; lines of the grid at ``rows`` and ``columns``, in pixels; ``what`` says it."""

    pixels: Pixels
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    what: str


def canvas_of(item: Item, media: Media) -> Canvas:
    """The feature as a picture; of one that is none, what went in with the grid of its tokens."""
    values = values_of(item.feature)
    for paint in _PAINTERS:
        canvas = paint(values, item)
        if canvas is not None:
            return canvas
    return _input(media, item.tokens)


def values_of(feature: Feature) -> npt.NDArray[Any]:
    """The numbers that a feature's bytes mean."""
    if feature.dtype is DType.BFLOAT16:
        return (feature.array.astype(np.uint32) << 16).view(np.float32).reshape(feature.shape)
    return feature.array.reshape(feature.shape)


def _patches(values: npt.NDArray[Any], item: Item) -> Canvas | None:
    """Rows of patches as Qwen-VL has them: in blocks that become a token, frame after frame."""
    grid = next((item.model_specific[key] for key in _GRIDS if key in item.model_specific), None)
    if not isinstance(grid, list) or len(grid) != 3:
        return None
    frames, high, wide = (int(one) for one in grid)
    flat = values.reshape(len(values), -1)
    if len(flat) != frames * high * wide or not item.tokens:
        return None
    merge = math.isqrt(len(flat) // item.tokens)
    copies, side = _patch(flat.shape[1])
    if not side or high % merge or wide % merge:
        return None
    parts = flat.reshape(frames, high // merge, wide // merge, merge, merge, 3, copies, side, side)[:, :, :, :, :, :, 0]
    pictures = parts.transpose(0, 1, 3, 6, 2, 4, 7, 5).reshape(frames * high * side, wide * side, 3)
    step = side * merge
    what = f"{frames} x {high} x {wide} patches of {side} pixels; a cell of the grid is a token"
    return _canvas(pictures, range(0, len(pictures), step), range(0, pictures.shape[1], step), what)


def _patch(values: int) -> tuple[int, int]:
    """Copies in time and side of a patch of three colours with so many values; side 0 when there is none."""
    for copies in (2, 1):
        side = math.isqrt(values // (3 * copies))
        if 3 * copies * side * side == values:
            return copies, side
    return 1, 0


def _tiles(values: npt.NDArray[Any], item: Item) -> Canvas | None:
    """``[3, h, w]``, or a row of such tiles."""
    if values.ndim not in (3, 4) or values.shape[-3] != 3 or min(values.shape[-2:]) < 2:
        return None
    tiles = values.reshape(-1, *values.shape[-3:]).transpose(0, 2, 3, 1)
    count, height, width, _ = tiles.shape
    across = math.ceil(math.sqrt(count))
    down = math.ceil(count / across)
    whole = np.zeros((down * height, across * width, 3), np.float32)
    for number, tile in enumerate(tiles):
        top, left = number // across * height, number % across * width
        whole[top : top + height, left : left + width] = tile
    what = f"{f'{count} tiles' if count > 1 else 'a picture'} of {width} x {height}"
    return _canvas(whole, range(0, len(whole), height), range(0, whole.shape[1], width), what)


def _bands(values: npt.NDArray[Any], item: Item) -> Canvas | None:
    """A spectrogram ``[bands, frames]``: low sounds below."""
    if str(item.modality) != "audio" or values.ndim != 2 or values.shape[1] < 2 or values.shape[0] > values.shape[1]:
        return None
    # Long ones are thinned, so that a picture of them can be looked at.
    step = math.ceil(values.shape[1] / _WIDEST)
    shown = np.repeat(values[::-1, ::step], 3, axis=0)
    what = f"{values.shape[0]} bands, {values.shape[1]} frames"
    return _canvas(np.repeat(shown[..., None], 3, axis=2), (0,), (0,), what)


def _input(media: Media, tokens: int) -> Canvas:
    """What went in, with a grid of about as many cells as there are tokens."""
    if isinstance(media, Audio):
        return _waves(media, tokens)
    pixels = media.pixels if isinstance(media, Image) else media.frames[0]
    height, width = pixels.shape[:2]
    across = min(max(1, round(math.sqrt(tokens * width / height))), tokens)
    down = math.ceil(tokens / across)
    rows = tuple(number * height // down for number in range(down))
    columns = tuple(number * width // across for number in range(across))
    what = f"the input, which the feature is no picture of; {tokens} tokens"
    return Canvas(np.ascontiguousarray(pixels), rows, columns, what)


def _waves(media: Audio, tokens: int) -> Canvas:
    """The loudest sample of each column, above and below the middle."""
    width, half = 800, 80
    pieces = np.array_split(np.abs(media.samples), min(width, len(media.samples)))
    loudest = max(float(np.abs(media.samples).max()), 1e-9)
    pixels = np.full((2 * half, len(pieces), 3), 255, np.uint8)
    for column, piece in enumerate(pieces):
        reach = round(half * float(piece.max()) / loudest)
        pixels[half - reach : half + reach + 1, column] = (40, 90, 160)
    columns = tuple(number * len(pieces) // tokens for number in range(tokens)) if tokens <= len(pieces) // 2 else (0,)
    return Canvas(pixels, (0,), columns, f"the recording; {tokens} tokens")


def _canvas(values: npt.NDArray[Any], rows: Any, columns: Any, what: str) -> Canvas:
    """Values of any scale as pixels: the least is black, the greatest white, each colour by itself."""
    if values.dtype == np.uint8:
        return Canvas(np.ascontiguousarray(values), tuple(rows), tuple(columns), what)
    low, high = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    scaled = (values - low) / np.where(high > low, high - low, 1)
    return Canvas(np.ascontiguousarray((scaled * 255).round().astype(np.uint8)), tuple(rows), tuple(columns), what)


_PAINTERS: tuple[Callable[[npt.NDArray[Any], Item], Canvas | None], ...] = (_patches, _tiles, _bands)
