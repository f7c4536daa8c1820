"""Features in shared memory as torch tensors, without a copy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy.typing as npt
import torch

from forebay.dtypes import DType
from forebay.engine import AdmittedItem


def view(array: npt.NDArray[Any]) -> torch.Tensor:
    """A tensor over the array's memory. It is for reading: the mapping behind it is not writable."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def feature(item: AdmittedItem) -> torch.Tensor:
    """An item's feature; bfloat16 is its raw bits, read as what they are."""
    tensor = view(item.array)
    return tensor.view(torch.bfloat16) if item.dtype is DType.BFLOAT16 else tensor
