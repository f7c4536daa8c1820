"""A page as the model has it: four features, whose shapes are known from its size and its boxes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from pydantic import BaseModel

from forebay import DType, Image, Media, Planned, Rejected, Video
from forebay_layout_demo.options import Box, LayoutOptions

SIDE = 16
"""Of a patch, of the thumbnail, and of a region as the model sees it; in pixels."""
MOST_PATCHES = 8
"""Along the longer side of a page."""
_VALUES = 3 * SIDE * SIDE
_LINE_BYTES = 64  # where a feature may begin


class Part(IntEnum):
    """Which feature of a page an item is; the model finds it there as ``part``."""

    PATCHES = 0
    THUMBNAIL = 1
    CROPS = 2
    PLACES = 3

    @property
    def dtype(self) -> DType:
        return _DTYPES[self]


_DTYPES = {
    Part.PATCHES: DType.FLOAT32,  # what the model looks at longest
    Part.THUMBNAIL: DType.UINT8,  # pixels as they are; the model normalises them
    Part.CROPS: DType.BFLOAT16,  # there may be many, and the model rounds them anyway
    Part.PLACES: DType.INT64,  # indices into a table of the model
}


@dataclass(frozen=True, slots=True)
class Page:
    """Its size in pixels, and the regions of it that are wanted."""

    height: int
    width: int
    boxes: tuple[Box, ...] = ()

    @classmethod
    def of(cls, media: Media, extensions: BaseModel | None) -> Page:
        """A page, as the extension map of its own has its boxes.

        Raises:
            Rejected: a box that is not on it.
        """
        assert isinstance(media, Image | Video)  # the flow hands over no modality that is not declared
        assert isinstance(extensions, LayoutOptions)
        boxes = extensions.multimodal_boxes[0] if extensions.multimodal_boxes else ()
        page = cls(media.height, media.width, boxes)
        for x0, y0, x1, y1 in page.boxes:
            if x1 > page.width or y1 > page.height:
                message = f"the box [{x0}, {y0}, {x1}, {y1}] leaves {media.param}, of {page.width}x{page.height} pixels"
                raise Rejected("box_outside_page", message, param="multimodal_boxes")
        return page

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of its patches, at least one of each."""
        longer = max(self.height, self.width)
        return max(1, round(MOST_PATCHES * self.height / longer)), max(1, round(MOST_PATCHES * self.width / longer))

    @property
    def shapes(self) -> Mapping[Part, tuple[int, ...]]:
        """Of each of its features; a page without boxes has two."""
        shapes: dict[Part, tuple[int, ...]] = {
            Part.PATCHES: (math.prod(self.grid), _VALUES),
            Part.THUMBNAIL: (1, 3, SIDE * SIDE),
        }
        if self.boxes:
            shapes |= {Part.CROPS: (len(self.boxes), _VALUES), Part.PLACES: (len(self.boxes), 4)}
        return shapes

    @property
    def size_bytes(self) -> int:
        """Of all features together, each from a line on."""
        sizes = (math.prod(shape) * part.dtype.itemsize for part, shape in self.shapes.items())
        return sum(math.ceil(size / _LINE_BYTES) * _LINE_BYTES for size in sizes)

    @property
    def planned(self) -> Planned:
        """Its patches, and what is told beside them."""
        rows, columns = self.grid
        told: dict[str, int | list[int] | list[float]] = {
            "grid": [rows, columns],
            "boxes": len(self.boxes),
            # A small array, [2, 3] row by row: from a patch's (column, row, 1) to the (x, y) of its corner in pixels.
            "to_pixels": [self.width / columns, 0.0, 0.0, 0.0, self.height / rows, 0.0],
        }
        return Planned(self.shapes[Part.PATCHES], Part.PATCHES.dtype, rows * columns, told)
