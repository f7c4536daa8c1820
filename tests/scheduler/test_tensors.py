"""Features as tensors: their element types mean the same on both sides."""

import numpy as np
import pytest
import torch

from forebay import AdmittedItem, DType, Modality, Span
from scheduler.engines.tensors import feature, view


@pytest.mark.parametrize(
    ("dtype", "array", "tensor_type", "values"),
    [
        (DType.FLOAT32, np.array([1.5, -2], np.float32), torch.float32, [1.5, -2.0]),
        (DType.INT64, np.array([2**62], np.int64), torch.int64, [2**62]),
        (DType.UINT8, np.array([255], np.uint8), torch.uint8, [255]),
        (DType.BFLOAT16, np.array([0x3F80, 0xC000], np.uint16), torch.bfloat16, [1.0, -2.0]),
    ],
)
def test_an_element_means_what_its_type_says(dtype, array, tensor_type, values):
    """bfloat16 travels as raw bits, and is read as what they are; no byte is moved, and nobody is warned."""
    array.flags.writeable = False  # as in the pool

    tensor = feature(AdmittedItem(Modality.IMAGE, array, dtype, (Span(0, 0),), 0, {}))

    assert (tensor.dtype, tensor.tolist()) == (tensor_type, values)
    assert tensor.data_ptr() == array.__array_interface__["data"][0]


def test_ids_and_positions_are_viewed_alike():
    """They lie in the pool too."""
    ids = np.arange(3)

    assert view(ids).data_ptr() == ids.__array_interface__["data"][0]
