"""Whose part of a prompt and of a tensor is whose: a Hugging Face processor gives those of all items together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay import Failed, Rejected, Span
from forebay.features import Int64Array

Array = npt.NDArray[Any]


def spans_of(ids: Int64Array, carrier: int, counts: Sequence[int], param: str) -> list[tuple[Span, ...]]:
    """The runs of each item's tokens.

    Args:
        ids: the expanded prompt.
        carrier: the token that features stand behind.
        counts: how many of them each item has, in the order of the prompt.
        param: the items, for messages.

    Raises:
        Rejected: the prompt has others besides.
    """
    places = np.flatnonzero(ids == carrier)
    if len(places) != sum(counts):
        raise Rejected(
            "placeholder_mismatch",
            f"the expanded prompt has {len(places)} tokens {carrier}, {param} stands for {sum(counts)}",
            param=param,
        )
    ends = np.cumsum(counts)[:-1]
    return [_runs(chunk) for chunk in np.split(places, ends)]


def _runs(places: Int64Array) -> tuple[Span, ...]:
    pieces = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    return tuple(Span(int(piece[0]), int(piece[-1])) for piece in pieces if piece.size)


def parts_of(name: str, tensor: Array, tokens: Sequence[int]) -> list[Array]:
    """Each item's part of a tensor; joined along the axis that was split, they are the tensor.

    A first axis of the items' number is theirs. Else it, or the second where the first is a batch of one, counts
    rows, of which an item has as many as it has tokens.

    Args:
        name: of the tensor.
        tensor: of all items of one modality.
        tokens: of each item.

    Raises:
        Failed: it cannot be told whose rows are whose.
    """
    if len(tokens) == 1:
        return [tensor]
    if tensor.ndim and tensor.shape[0] == len(tokens):
        return np.split(tensor, len(tokens))
    axis = 1 if tensor.ndim > 1 and tensor.shape[0] == 1 else 0
    rows, total = tensor.shape[axis] if tensor.ndim else 0, sum(tokens)
    if not rows or any(rows * count % total for count in tokens):
        raise Failed(
            "invalid_result",
            f"the Hugging Face processor made {name} {list(tensor.shape)} of {len(tokens)} items with {list(tokens)} "
            "tokens; whose rows are whose cannot be told",
        )
    return np.split(tensor, np.cumsum([rows * count // total for count in tokens])[:-1], axis=axis)


def is_part_of(alone: Array, part: Array) -> bool:
    """Whether an item's part is what the item gives alone, but for padding behind it, which is of one value."""
    if alone.ndim != part.ndim or any(small > large for small, large in zip(alone.shape, part.shape, strict=True)):
        return False
    inside = tuple(slice(side) for side in alone.shape)
    if not np.array_equal(alone, part[inside]):
        return False
    padding = np.ones(part.shape, bool)
    padding[inside] = False
    values = part[padding]
    return bool(values.size == 0 or (values == values[0]).all())
