"""Named tensors of one item, as they travel: the largest is the feature, the others are told beside it.

The contract gives an item one feature, and numbers or lists of them. A small tensor is told as a list, a large one
whose values repeat, as masks do, as runs. ``named_tensors`` puts them together again, for an engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay import DType, Failed, Feature, Work
from forebay.features import Attribute

FEATURE, SHAPE, RUNS = ".feature", ".shape", ".runs"
MOST_NUMBERS = 4096
"""Beside a feature: what a ticket carries without becoming a second feature pool."""

_KINDS = ("bool", "uint8", "int32", "int64", "float32", "float64")
_STORED = {"bool": DType.UINT8, "uint8": DType.UINT8, "int32": DType.INT64, "int64": DType.INT64}
_STORED |= {"float32": DType.FLOAT32}


def carry(tensors: Mapping[str, npt.NDArray[Any]], work: Work) -> tuple[Feature, dict[str, Attribute]]:
    """Write the largest tensor into the feature pool and tell the others beside it.

    Raises:
        Failed: there is no tensor, or one of a kind or size that cannot travel.
    """
    if not tensors:
        raise Failed("invalid_result", "the Hugging Face processor made no tensor of an item")
    main = max(tensors, key=lambda name: (tensors[name].dtype.kind == "f", tensors[name].nbytes))
    told: dict[str, Attribute] = {main + FEATURE: [_kind(main, tensors[main])]}
    for name, tensor in tensors.items():
        if name != main:
            told |= _beside(name, tensor)
    return _feature(main, tensors[main], work), told


def prompt_tensors(tensors: Mapping[str, npt.NDArray[Any]]) -> dict[str, Attribute]:
    """Tensors that go with the prompt and not with an item: told beside the first one."""
    told: dict[str, Attribute] = {}
    for name, tensor in tensors.items():
        told |= _beside(name, tensor)
    return told


def named_tensors(feature: npt.NDArray[Any], told: Mapping[str, Attribute]) -> dict[str, npt.NDArray[Any]]:
    """The tensors of one item by the names that the model's ``forward`` has for them.

    Args:
        feature: its array, as the pool has it.
        told: its model-specific attributes.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for key, value in told.items():
        values = value if isinstance(value, list) else [value]
        if key.endswith(FEATURE):
            found[key.removesuffix(FEATURE)] = feature.astype(_KINDS[int(values[0])], copy=False)
        elif key.endswith(SHAPE):
            name, (kind, *shape) = key.removesuffix(SHAPE), values
            found[name] = _numbers(name, told).astype(_KINDS[int(kind)]).reshape([int(side) for side in shape])
    return found


def _feature(name: str, tensor: npt.NDArray[Any], work: Work) -> Feature:
    stored = _STORED.get(str(tensor.dtype))
    if stored is None:
        raise Failed(
            "invalid_result", f"the Hugging Face processor made {name} of {tensor.dtype}, which is not carried"
        )
    array = work.empty(tensor.shape, stored)
    np.copyto(array, tensor)
    return Feature.of(array, stored)


def _beside(name: str, tensor: npt.NDArray[Any]) -> dict[str, Attribute]:
    shape: Attribute = [_kind(name, tensor), *tensor.shape]
    flat = tensor.reshape(-1)
    if flat.size <= MOST_NUMBERS:
        return {name + SHAPE: shape, name: flat.astype(_number(tensor)).tolist()}
    starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]]))
    if 2 * starts.size > MOST_NUMBERS:
        raise Failed(
            "invalid_result",
            f"the Hugging Face processor made {name} of {flat.size} numbers beside the feature; "
            f"{MOST_NUMBERS} are carried",
        )
    counts = np.diff(np.append(starts, flat.size))
    runs = np.stack([flat[starts].astype(_number(tensor)), counts], axis=1)
    return {name + SHAPE: shape, name + RUNS: runs.reshape(-1).tolist()}


def _numbers(name: str, told: Mapping[str, Attribute]) -> npt.NDArray[Any]:
    if name in told:
        return np.asarray(told[name])
    runs = np.asarray(told[name + RUNS]).reshape(-1, 2)
    return np.repeat(runs[:, 0], runs[:, 1].astype(np.int64))


def _kind(name: str, tensor: npt.NDArray[Any]) -> int:
    kind = str(tensor.dtype)
    if kind not in _KINDS or not math.prod(tensor.shape):
        raise Failed("invalid_result", f"the Hugging Face processor made {name} of {kind} {list(tensor.shape)}")
    return _KINDS.index(kind)


def _number(tensor: npt.NDArray[Any]) -> type[float] | type[int]:
    return float if tensor.dtype.kind == "f" else int
