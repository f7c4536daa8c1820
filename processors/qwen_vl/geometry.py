"""From the size of a picture to the grid of patches that stands for it, exactly as Hugging Face computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from processors.pixels.sides import check_sides

CHANNELS = 3


@dataclass(frozen=True, slots=True)
class Grid:
    """Patches of one item: ``t`` groups of frames, each of ``h`` rows and ``w`` columns."""

    t: int
    h: int
    w: int

    @property
    def patches(self) -> int:
        return self.t * self.h * self.w

    def as_list(self) -> list[int]:
        return [self.t, self.h, self.w]

    def merged(self, merge: int) -> Grid:
        """The grid of tokens: ``merge`` x ``merge`` patches become one."""
        return Grid(self.t, self.h // merge, self.w // merge)


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a model cuts a picture.

    Attributes:
        patch: side of a patch, in pixels.
        merge: side of the square of patches that becomes one token.
        temporal: frames in a patch; a still image fills them with copies.
        min_pixels: a smaller picture is enlarged.
        max_pixels: a larger picture is reduced.
    """

    patch: int
    merge: int
    temporal: int
    min_pixels: int
    max_pixels: int

    @property
    def factor(self) -> int:
        """Side of a token, in pixels; both sides of a resized picture are multiples of it."""
        return self.patch * self.merge

    @property
    def patch_values(self) -> int:
        """Values in one row of a feature."""
        return CHANNELS * self.temporal * self.patch * self.patch

    def tokens(self, grid: Grid) -> int:
        return grid.merged(self.merge).patches

    def grid(self, height: int, width: int, param: str | None = None) -> Grid:
        """The patches of a picture.

        Raises:
            Rejected: one side is more than 200 times the other.
        """
        check_sides(height, width, param)
        fitted_height, fitted_width = self.fit(height, width)
        return Grid(1, fitted_height // self.patch, fitted_width // self.patch)

    def fit(self, height: int, width: int) -> tuple[int, int]:
        """Height and width after the resize.

        A very thin picture is enlarged with its shape, past ``max_pixels`` if need be: the limits are no guarantee.
        """
        rounded = self._rounded(height), self._rounded(width)
        if rounded[0] * rounded[1] > self.max_pixels:
            shrink = math.sqrt((height * width) / self.max_pixels)
            return self._reduced(height, shrink), self._reduced(width, shrink)
        if rounded[0] * rounded[1] < self.min_pixels:
            grow = math.sqrt(self.min_pixels / (height * width))
            return self._enlarged(height, grow), self._enlarged(width, grow)
        return rounded

    def _rounded(self, side: int) -> int:
        return round(side / self.factor) * self.factor  # half to even, so 42 becomes 56 and 70 does too

    def _reduced(self, side: int, shrink: float) -> int:
        return max(self.factor, math.floor(side / shrink / self.factor) * self.factor)

    def _enlarged(self, side: int, grow: float) -> int:
        return math.ceil(side * grow / self.factor) * self.factor
