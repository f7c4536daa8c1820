"""In what two outputs of one request differ, in words with both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.dtypes import DType
from forebay.features import Feature, Item, Output, Positions

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Difference:
    """One. ``kind`` is of a short list, for those who count."""

    kind: str
    said: str


def compare(first: Output, second: Output, tolerance: float = 0.0) -> tuple[list[Difference], float]:
    """What differs, and the largest absolute error of all features whose shapes are alike.

    Args:
        first: of the processor whose answer counts.
        second: of the other.
        tolerance: an absolute error up to it is none.
    """
    found = list(_of_prompts(first, second))
    largest = 0.0
    for number, (one, other) in enumerate(zip(first.items, second.items, strict=False)):
        error = max_abs_error(one.feature, other.feature)
        largest = max(largest, error or 0.0)
        found += _of_items(one, other, f"item {number}")
        if error is not None and error > tolerance:
            found.append(Difference("values", f"item {number}: values differ by {error:g} at most"))
    return found, largest


def _of_prompts(first: Output, second: Output) -> Iterator[Difference]:
    if len(first.items) != len(second.items):
        yield Difference("items", f"{len(first.items)} items, then {len(second.items)}")
    if not np.array_equal(first.input_ids, second.input_ids):
        yield Difference("ids", f"input_ids: {_parted(first.input_ids, second.input_ids)}")
    one, other = first.positions, second.positions
    if not _same_positions(one, other):
        yield Difference("positions", f"positions: {_told(one)}, then {_told(other)}")


def _same_positions(one: Positions | None, other: Positions | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.delta == other.delta and np.array_equal(one.mrope, other.mrope)


def _told(positions: Positions | None) -> str:
    return "none" if positions is None else f"{list(positions.mrope.shape)} with delta {positions.delta}"


def _parted(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> str:
    if len(one) != len(other):
        return f"{len(one)} tokens, then {len(other)}"
    place = int(np.flatnonzero(one != other)[0])
    return f"token {place} is {one[place]}, then {other[place]}"


def _of_items(one: Item, other: Item, name: str) -> Iterator[Difference]:
    sides: dict[str, tuple[Any, Any]] = {
        "modality": (str(one.modality), str(other.modality)),
        "shape": (list(one.feature.shape), list(other.feature.shape)),
        "dtype": (str(one.feature.dtype), str(other.feature.dtype)),
        "spans": (_runs(one), _runs(other)),
        "tokens": (one.tokens, other.tokens),
        "normalisation": (one.feature.normalisation, other.feature.normalisation),
        "hash": (one.hash, other.hash),
    }
    for kind, (before, after) in sides.items():
        if before != after:
            yield Difference(kind, f"{name}: {kind} {before}, then {after}")
    keys = sorted(set(one.model_specific) | set(other.model_specific))
    for key in keys:
        before, after = one.model_specific.get(key), other.model_specific.get(key)
        if before != after:
            yield Difference("model_specific", f"{name}: {key} {_short(before)}, then {_short(after)}")


def _runs(item: Item) -> list[list[int]]:
    return [[span.first, span.last] for span in item.spans]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def max_abs_error(one: Feature, other: Feature) -> float | None:
    """The largest absolute difference of two features; ``None`` where they cannot be held against each other."""
    if one.shape != other.shape or (one.dtype is not other.dtype and not (one.dtype.is_float and other.dtype.is_float)):
        return None
    first, second = one.array.reshape(-1), other.array.reshape(-1)
    largest = 0.0
    for start in range(0, first.size, _CHUNK):
        piece = slice(start, start + _CHUNK)
        gap = float(np.abs(_wide(first[piece], one.dtype) - _wide(second[piece], other.dtype)).max())
        if not (one.dtype.is_float or np.array_equal(first[piece], second[piece])):
            gap = max(gap, 1.0)  # float64 has fewer digits than int64
        largest = max(largest, gap)
    return largest


def _wide(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.float64]:
    if dtype is DType.BFLOAT16:
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)
