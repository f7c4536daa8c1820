"""Features in shared memory as torch tensors: as they lie there, or as the model reads them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy.typing as npt
import torch

from forebay.dtypes import DType
from forebay.engine import AdmittedItem
from forebay.features import Normalisation


def view(array: npt.NDArray[Any]) -> torch.Tensor:
    """A tensor over the array's memory. It is for reading: the mapping behind it is not writable."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(array)


def feature(item: AdmittedItem) -> torch.Tensor:
    """An item's feature as it is stored, without a copy; bfloat16 is its raw bits, read as what they are."""
    tensor = view(item.array)
    return tensor.view(torch.bfloat16) if item.dtype is DType.BFLOAT16 else tensor


def model_tensor(
    item: AdmittedItem, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """An item's feature as the model reads it, whatever element type it was stored in.

    The stored bytes move to the device first, and everything else is done there. On the CPU, what is float32 already
    is not copied: the tensor lies over shared memory, for reading, as long as the item is valid. A copy to a GPU may
    still be under way when this returns; work of the same stream waits for it.

    Args:
        item: one of an admission's.
        dtype: the floating type that the model computes in.
        device: where the model is.

    Returns:
        ``[rows, channels * copies * values]`` of an item with a normalisation, else the stored shape.
    """
    stored = feature(item).to(device, non_blocking=True)
    if item.normalisation is None:
        return stored.to(dtype)
    return _copies(_normalised(stored, item.normalisation).to(dtype), item.normalisation.copies)


def _normalised(pixels: torch.Tensor, normalisation: Normalisation) -> torch.Tensor:
    """``float32 [rows, channels, values]``: subtract, then divide, each rounded; a fused form has other last bits."""
    constants = torch.tensor([normalisation.mean, normalisation.std], dtype=torch.float32)
    mean, std = constants.to(pixels.device, non_blocking=True)[:, :, None]
    return pixels.to(torch.float32).sub_(mean).div_(std)


def _copies(values: torch.Tensor, copies: int) -> torch.Tensor:
    """Each channel ``copies`` times over: ``[rows, channels * copies * values]``."""
    return values[:, :, None].expand(-1, -1, copies, -1).flatten(1)
