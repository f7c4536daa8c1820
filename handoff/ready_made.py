"""A feature that a caller has made, on its way through the media store: bytes, what they are, what they were made of.

The API packs what a caller has sent, and a worker takes it apart. It has one digest, over all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from forebay.dtypes import DType
from forebay.features import Feature

_MAGIC = b"\x89FBMADE1"  # no media file begins so

SIZES: Mapping[str, tuple[str, ...]] = {
    "image": ("height", "width"),
    "audio": ("samples",),
    "video": ("frames", "fps", "height", "width"),
}
"""By modality, the numbers that say what a feature was made of."""


@dataclass(frozen=True, slots=True)
class SentFeature:
    """A feature as it was sent. ``made_of`` has the numbers of its modality in ``SIZES``."""

    dtype: DType
    shape: tuple[int, ...]
    made_of: Mapping[str, float]
    sha256: str | None = None
    """Of its elements, where the caller has told it."""

    def pack(self, data: bytes) -> bytes:
        """With its elements, little-endian, in C order."""
        return _MAGIC + bytes(msgpack.packb([str(self.dtype), list(self.shape), dict(self.made_of), data]))


def unpack(data: bytes) -> tuple[Feature, Mapping[str, float]]:
    """Read what ``pack`` wrote: the feature, and what it was made of.

    Raises:
        ValueError: somebody else wrote it.
    """
    try:
        name, shape, made_of, raw = msgpack.unpackb(memoryview(data)[len(_MAGIC) :])
        dtype = DType(name)
        array: Any = np.frombuffer(raw, dtype.carrier).reshape(shape)
    except TypeError as error:
        raise ValueError("not a feature") from error
    return Feature(array, dtype, tuple(shape)), made_of


def is_ready_made(data: bytes) -> bool:
    """Whether it begins as ``pack`` begins."""
    return data[: len(_MAGIC)] == _MAGIC
