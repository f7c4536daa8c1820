"""The arithmetic: each feature of a page from its pixels, as mean colours of equal cells.

This module brings torch along: its bfloat16 is the one that models compute with, and its threads share the colours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own name for it

from forebay import Normalisation
from forebay_layout_demo.page import SIDE, Page, Part

Pixels = npt.NDArray[np.uint8]

PLACES = 1000
"""Where a region is, is told in so many parts of the page."""
MIDDLE = 127.5
NORMALISATION = Normalisation(mean=(MIDDLE,) * 3, std=(MIDDLE,) * 3, copies=1)
"""What makes of a thumbnail's bytes the values that patches and crops have: -1 to 1."""


def write(part: Part, pixels: Pixels, page: Page, out: npt.NDArray[Any]) -> None:
    """Write one feature.

    Args:
        part: which.
        pixels: ``uint8 [height, width, 3]``.
        page: what is wanted of it.
        out: of that part's shape and dtype; of bfloat16 the bits, as ``uint16``.
    """
    _WRITERS[part](pixels, page, out)


def _write_patches(pixels: Pixels, page: Page, out: npt.NDArray[Any]) -> None:
    """``float32 [rows * columns, 3 * SIDE * SIDE]``: row by row, each patch channel by channel."""
    rows, columns = page.grid
    cells = _means(pixels, rows * SIDE, columns * SIDE).reshape(3, rows, SIDE, columns, SIDE)
    torch.from_numpy(out).copy_(_normal(cells.permute(1, 3, 0, 2, 4).reshape(out.shape)))


def _write_thumbnail(pixels: Pixels, page: Page, out: npt.NDArray[Any]) -> None:
    """``uint8 [1, 3, SIDE * SIDE]``: the whole page in one patch, before normalisation."""
    torch.from_numpy(out).copy_(_means(pixels, SIDE, SIDE).round().reshape(out.shape))


def _write_crops(pixels: Pixels, page: Page, out: npt.NDArray[Any]) -> None:
    """``bfloat16 [boxes, 3 * SIDE * SIDE]``: each region in one patch."""
    for row, (x0, y0, x1, y1) in zip(torch.from_numpy(out).view(torch.bfloat16), page.boxes, strict=True):
        row.copy_(_normal(_means(pixels[y0:y1, x0:x1], SIDE, SIDE).reshape(-1)))


def _write_places(pixels: Pixels, page: Page, out: npt.NDArray[Any]) -> None:
    """``int64 [boxes, 4]``: each box in thousandths of the page, rounded down."""
    out[:] = np.array(page.boxes) * PLACES // np.array([page.width, page.height] * 2)


_WRITERS = {
    Part.PATCHES: _write_patches,
    Part.THUMBNAIL: _write_thumbnail,
    Part.CROPS: _write_crops,
    Part.PLACES: _write_places,
}


def _means(pixels: Pixels, rows: int, columns: int) -> torch.Tensor:
    """Mean colours of ``rows x columns`` cells: ``float32 [3, rows, columns]``, 0 to 255."""
    # A copy in any case: the pixels may be shared and read-only, and torch pools dense planes of floats.
    planes = np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32)
    return F.adaptive_avg_pool2d(torch.from_numpy(planes), (rows, columns))


def _normal(values: torch.Tensor) -> torch.Tensor:
    return values.sub(MIDDLE).div(MIDDLE)
