"""A canvas as a PNG, large enough to see its grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from launch.trying.canvas import Canvas

_LEAST = 448  # pixels of the longer side
_LINE = (255, 64, 64)


def draw(canvas: Canvas, path: Path) -> None:
    """Write the picture with its grid.

    Raises:
        OSError: it cannot be written.
    """
    from PIL import Image

    factor = max(1, -(-_LEAST // max(canvas.pixels.shape[:2])))
    pixels = np.repeat(np.repeat(canvas.pixels, factor, axis=0), factor, axis=1)
    # The first line is the border: a picture without a grid has none.
    pixels[[row * factor for row in canvas.rows[1:]]] = _LINE
    pixels[:, [column * factor for column in canvas.columns[1:]]] = _LINE
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, "PNG")
