"""The values a processor produces: features, the tokens they stand for, and the positions of the prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dtypes import DType

Int64Array = npt.NDArray[np.int64]
Attribute = int | float | list[int] | list[float]


class Modality(StrEnum):
    """What kind of media an item is."""

    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens one item occupies in the expanded prompt; both ends are inclusive, as on the wire."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Normalisation:
    """What a reader still has to do to a ``uint8`` feature that carries pixels as they are.

    The feature is ``uint8 [rows, channels, values]``; the model's is ``float32 [rows, channels * copies * values]``,
    where each copy of channel ``c`` is ``(x - mean[c]) / std[c]``, computed in float32 in that order.

    Attributes:
        mean: per channel, in units of the stored pixels (0 to 255); a float32 value, exactly.
        std: the deviation by which the difference is divided, likewise.
        copies: temporal copies that the model expects; the stored feature has one.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    copies: int


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """One array of an item, in C order, with the element type that its bytes mean.

    Attributes:
        array: the data; for ``bfloat16`` a ``uint16`` array of the raw bits.
        dtype: what an element is.
        shape: the shape the processor promises; ``validate`` holds it against the data.
        normalisation: beside ``uint8`` pixels that the reader normalises; ``None`` where the values are the model's.
    """

    array: npt.NDArray[Any]
    dtype: DType
    shape: tuple[int, ...]
    normalisation: Normalisation | None = None

    @classmethod
    def of(cls, array: npt.NDArray[Any], dtype: DType, normalisation: Normalisation | None = None) -> Feature:
        return cls(array, dtype, tuple(array.shape), normalisation)

    @property
    def size_bytes(self) -> int:
        return self.array.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Processed:
    """What a family's ``process_item`` returns for one media item.

    Attributes:
        feature: the model's input for this item.
        tokens: how many tokens of the prompt the item stands for.
        model_specific: numbers or lists of numbers that only the model reads.
    """

    feature: Feature
    tokens: int
    model_specific: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """What ``process_item`` will make of an item, known from its size alone.

    ``normalisation`` is that of the feature; where a plan of pixels tells none, callers cannot send their own feature.
    """

    shape: tuple[int, ...]
    dtype: DType
    tokens: int
    model_specific: Mapping[str, Attribute] = field(default_factory=dict)
    normalisation: Normalisation | None = None

    @property
    def size_bytes(self) -> int:
        """Of the feature."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """One processed media item, placed in the prompt.

    Attributes:
        hash: unsigned 64-bit identity used by prefix caches; ``None`` lets the driver take the media's own.
        tokens: tokens that carry the item's features; the spans must add up to it.
    """

    modality: Modality
    feature: Feature
    spans: tuple[Span, ...]
    tokens: int
    hash: int | None = None
    digest: str | None = None
    model_specific: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """M-RoPE positions, ``int64 [3, len(input_ids)]`` (time, height, width), and the offset for decoding."""

    mrope: Int64Array
    delta: int


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """Everything the scheduler needs of one request: ``input_ids`` is ``int64 [n]``, already expanded."""

    input_ids: Int64Array
    items: tuple[Item, ...] = ()
    positions: Positions | None = None


def ids_array(ids: Sequence[int] | Int64Array) -> Int64Array:
    """Token ids as a contiguous ``int64`` array."""
    return np.ascontiguousarray(ids, dtype=np.int64)
