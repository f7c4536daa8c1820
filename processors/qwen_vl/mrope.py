"""M-RoPE positions: text counts on in step, a picture spreads over its grid, text resumes behind its longer side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forebay import Positions, Span
from forebay.features import Int64Array
from processors.qwen_vl.geometry import Grid


def positions(length: int, items: Sequence[tuple[Span, Grid]]) -> Positions:
    """Positions of a prompt of ``length`` tokens; ``items`` are spans with the grids of their tokens, ascending."""
    mrope = np.empty((3, length), dtype=np.int64)
    token = position = 0
    for span, grid in items:
        position = _count_on(mrope[:, token : span.first], position)
        position = _spread(mrope[:, span.first : span.last + 1], position, grid)
        token = span.last + 1
    _count_on(mrope[:, token:], position)
    return Positions(mrope, int(mrope.max()) + 1 - length)


def _count_on(text: Int64Array, position: int) -> int:
    """Number text tokens from ``position``; return the next position."""
    count = int(text.shape[1])
    text[:] = np.arange(position, position + count)
    return position + count


def _spread(item: Int64Array, position: int, grid: Grid) -> int:
    """Lay an item's tokens over its grid. A still image has one time step, whatever the model's seconds mean."""
    cells = item.reshape(3, grid.t, grid.h, grid.w, copy=False)
    cells[0] = position + np.arange(grid.t)[:, None, None]
    cells[1] = position + np.arange(grid.h)[:, None]
    cells[2] = position + np.arange(grid.w)
    return position + max(grid.h, grid.w)
