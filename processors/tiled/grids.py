"""Which tiles a picture is cut into, and the tokens that stand for them, exactly as Hugging Face computes both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Canvas:
    """A picture that has been brought to ``rows`` x ``columns`` tiles; it fills ``height`` x ``width`` of them, in
    pixels, in the middle. ``whole`` says whether a small copy of all of it goes with them.
    """

    rows: int
    columns: int
    height: int
    width: int
    whole: bool

    @property
    def tiles(self) -> int:
        return self.rows * self.columns + self.whole


def canvas_by_shape(height: int, width: int, tile: tuple[int, int], fewest: int, most: int) -> Canvas:
    """InternVL's: the grid whose shape is nearest the picture's, of equally near ones the larger, if the picture fills
    more than half of it. A single tile is the whole itself.
    """
    ratio, area, unit = width / height, width * height, tile[0] * tile[1]
    best, nearest = (1, 1), math.inf
    for columns, rows in _grids(fewest, most):
        distance = abs(ratio - columns / rows)
        if distance < nearest:
            best, nearest = (columns, rows), distance
        elif distance == nearest and area > 0.5 * unit * columns * rows:
            best = columns, rows
    columns, rows = best
    return Canvas(rows, columns, rows * tile[0], columns * tile[1], whole=columns * rows > 1)


def _grids(fewest: int, most: int) -> list[tuple[int, int]]:
    """Columns and rows, the fewest tiles first; of as many, the narrower first."""
    sides = range(1, most + 1)
    grids = [(columns, rows) for columns in sides for rows in sides if fewest <= columns * rows <= most]
    return sorted(grids, key=lambda grid: grid[0] * grid[1])


def canvas_of_pinpoints(height: int, width: int, tile: int, pinpoints: Sequence[tuple[int, int]]) -> Canvas:
    """LLaVA-NeXT's: of the given sizes the one that keeps most of the picture, then the one that wastes least.

    The picture keeps its shape in it.
    """
    most, least, best = 0, math.inf, pinpoints[0]
    for high, wide in pinpoints:
        scale = min(wide / width, high / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        wasted = high * wide - kept
        if kept > most or (kept == most and wasted < least):
            most, least, best = kept, wasted, (high, wide)
    by_width, by_height = best[1] / width, best[0] / height
    if by_width < by_height:
        fitted = min(math.ceil(height * by_width), best[0]), best[1]
    else:
        fitted = best[0], min(math.ceil(width * by_height), best[1])
    return Canvas(best[0] // tile, best[1] // tile, *fitted, whole=True)


def tokens_without_padding(height: int, width: int, canvas: Canvas, side: int) -> int:
    """LLaVA-NeXT's tokens of a picture's tiles: rows and columns of padding are left out, each row left has one more.

    Args:
        height: of the picture as it came.
        width: likewise.
        canvas: its tiles.
        side: patches along a side of a tile.
    """
    rows, columns = side * canvas.rows, side * canvas.columns
    if width / height > columns / rows:
        rows -= 2 * ((rows - int(round(height * (columns / width), 7))) // 2)
    else:
        columns -= 2 * ((columns - int(round(width * (rows / height), 7))) // 2)
    return rows * columns + rows
