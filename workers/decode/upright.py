"""The way up: a container's display matrix, applied to pixels once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import av
import numpy as np
import numpy.typing as npt
from av.buffer import Buffer

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Upright:
    """What makes a stored frame upright: its axes swapped or not, then each reversed or not."""

    swaps: bool = False
    mirrors_x: bool = False
    mirrors_y: bool = False

    @classmethod
    def of(cls, frame: av.VideoFrame) -> Upright:
        """As the display matrix says, rounded to quarter turns; without one a frame is upright."""
        data = frame.side_data.get("DISPLAYMATRIX")
        if data is None:
            return cls()
        a, b, _, c, d, *_ = np.frombuffer(
            bytes(cast("Buffer", data)), np.int32
        ).tolist()  # x' = a x + c y, y' = b x + d y
        if abs(b) > abs(a):
            return cls(True, c < 0, b < 0)
        return cls(False, a < 0, d < 0)

    @property
    def rotation(self) -> int:
        """The turn, in degrees, clockwise; of a mirrored frame the one that follows the mirroring of its columns."""
        if self.swaps:
            return 90 if self.mirrors_x else 270
        return 180 if self.mirrors_y else 0

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of an upright frame."""
        return (height, width) if self.swaps else (width, height)

    def apply(self, pixels: Pixels) -> Pixels:
        """An upright view of ``uint8 [height, width, 3]``."""
        turned = pixels.swapaxes(0, 1) if self.swaps else pixels
        return turned[:: -1 if self.mirrors_y else 1, :: -1 if self.mirrors_x else 1]
