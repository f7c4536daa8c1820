"""M-RoPE positions: text counts on in step, media spread over their grids, text resumes behind the longer side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forebay import Positions, Span
from forebay.features import Int64Array
from processors.qwen_vl.geometry import Grid


@dataclass(frozen=True, slots=True)
class Block:
    """Tokens on a grid. ``step`` is from one time to the next, a float32 value; 1 where time has no seconds."""

    span: Span
    grid: Grid
    step: float = 1.0


def step_of(seconds: float, tokens_per_second: int) -> float:
    """The step for so many seconds a time, in float32 as the reference computes it."""
    return float(np.float32(seconds) * np.float32(tokens_per_second))


def positions(length: int, blocks: Sequence[Block]) -> Positions:
    """Positions of a prompt of ``length`` tokens; ``blocks`` have the grids of tokens, and ascend."""
    mrope = np.empty((3, length), dtype=np.int64)
    token = position = 0
    for block in blocks:
        position = _count_on(mrope[:, token : block.span.first], position)
        position = _spread(mrope[:, block.span.first : block.span.last + 1], position, block)
        token = block.span.last + 1
    _count_on(mrope[:, token:], position)
    return Positions(mrope, int(mrope.max()) + 1 - length)


def _count_on(text: Int64Array, position: int) -> int:
    """Number text tokens from ``position``; return the next position."""
    count = int(text.shape[1])
    text[:] = np.arange(position, position + count)
    return position + count


def _spread(item: Int64Array, position: int, block: Block) -> int:
    """Lay a block's tokens over its grid. The start is added after times are scaled and cut to whole numbers."""
    grid = block.grid
    cells = item.reshape(3, grid.t, grid.h, grid.w, copy=False)
    times = np.arange(grid.t, dtype=np.float32) * np.float32(block.step)
    cells[0] = position + times.astype(np.int64)[:, None, None]
    cells[1] = position + np.arange(grid.h)[:, None]
    cells[2] = position + np.arange(grid.w)
    return position + max(grid.h, grid.w)
