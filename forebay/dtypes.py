"""The element types a feature may have, and the NumPy type that carries each of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np


class DType(StrEnum):
    """Element type of a feature. NumPy has no bfloat16, so its bits travel as ``uint16``."""

    FLOAT32 = "float32"
    INT64 = "int64"
    BFLOAT16 = "bfloat16"
    UINT8 = "uint8"

    @property
    def carrier(self) -> np.dtype[Any]:
        """The little-endian NumPy dtype whose bytes are this type's bytes."""
        return _CARRIERS[self]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.carrier.itemsize

    @property
    def is_float(self) -> bool:
        return self in (DType.FLOAT32, DType.BFLOAT16)


_CARRIERS: dict[DType, np.dtype[Any]] = {
    DType.FLOAT32: np.dtype("<f4"),
    DType.INT64: np.dtype("<i8"),
    DType.BFLOAT16: np.dtype("<u2"),
    DType.UINT8: np.dtype("u1"),
}
