"""Features as tensors: their element types mean the same on both sides."""

import numpy as np
import pytest
import torch

from forebay import AdmittedItem, DType, Modality, Normalisation, Span
from scheduler.engines.tensors import feature, model_tensor, view

PIXELS = np.array([[[0, 10], [20, 255]]], np.uint8)  # one row of two channels of two pixels
TO_READ = Normalisation(mean=(10.0, 20.0), std=(2.0, 5.0), copies=2)


def item(array, dtype, normalisation=None):
    array.flags.writeable = False  # as in the pool
    return AdmittedItem(Modality.IMAGE, array, dtype, (Span(0, 0),), 0, {}, normalisation)


def address(array):
    return array.__array_interface__["data"][0]


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
    tensor = feature(item(array, dtype))

    assert (tensor.dtype, tensor.tolist()) == (tensor_type, values)
    assert tensor.data_ptr() == address(array)


def test_ids_and_positions_are_viewed_alike():
    """They lie in the pool too."""
    ids = np.arange(3)

    assert view(ids).data_ptr() == address(ids)


@pytest.mark.parametrize(
    ("dtype", "array", "wanted"),
    [
        (DType.FLOAT32, np.array([[1.5, -2]], np.float32), torch.float32),
        (DType.BFLOAT16, np.array([[0x3FC0, 0xC000]], np.uint16), torch.bfloat16),
    ],
)
def test_what_the_model_reads_already_is_not_copied(dtype, array, wanted):
    """On the CPU the tensor lies over shared memory."""
    tensor = model_tensor(item(array, dtype), dtype=wanted)

    assert (tensor.dtype, tensor.tolist()) == (wanted, [[1.5, -2.0]])
    assert tensor.data_ptr() == address(array)


def test_bfloat16_becomes_the_same_values_in_float32():
    """Every bfloat16 is a float32."""
    tensor = model_tensor(item(np.array([[0x3F80, 0xC000]], np.uint16), DType.BFLOAT16))

    assert (tensor.dtype, tensor.tolist()) == (torch.float32, [[1.0, -2.0]])


def test_float32_is_rounded_where_the_model_is_narrower():
    """To nearest even, as torch does it."""
    tensor = model_tensor(item(np.array([257, 259], np.float32), DType.FLOAT32), dtype=torch.bfloat16)

    assert (tensor.dtype, tensor.tolist()) == (torch.bfloat16, [256.0, 260.0])


def test_pixels_are_normalised_channel_by_channel_and_then_copied():
    """Each channel with its own constants; its copies stand side by side."""
    tensor = model_tensor(item(PIXELS, DType.UINT8, TO_READ))

    assert (tensor.dtype, tensor.shape) == (torch.float32, (1, 8))
    assert tensor.tolist() == [[-5, 0, -5, 0, 0, 47, 0, 47]]
    assert tensor.is_contiguous()
    assert PIXELS.tolist() == [[[0, 10], [20, 255]]]


def test_pixels_may_come_without_a_normalisation():
    """Then they are what the model reads, and keep their shape."""
    tensor = model_tensor(item(PIXELS, DType.UINT8))

    assert (tensor.dtype, tensor.tolist()) == (torch.float32, PIXELS.tolist())


def test_a_difference_is_rounded_before_it_is_divided():
    """Every level of a byte, in float32 and in that order; a reciprocal would have other last bits."""
    mean, std = np.float32(122.77094), np.float32(68.500534)
    levels = np.arange(256, dtype=np.uint8).reshape(1, 1, 256)

    tensor = model_tensor(item(levels, DType.UINT8, Normalisation((float(mean),), (float(std),), 1)))

    assert tensor[0].tolist() == ((levels[0, 0].astype(np.float32) - mean) / std).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_rounding_lies_between_pixels_and_what_the_model_computes_in(dtype):
    """Normalised in float32 first, whatever is wanted."""
    exact = model_tensor(item(PIXELS, DType.UINT8, TO_READ))

    assert torch.equal(model_tensor(item(PIXELS, DType.UINT8, TO_READ), dtype=dtype), exact.to(dtype))


@pytest.mark.parametrize("normalisation", [None, TO_READ])
def test_everything_after_the_move_happens_on_the_device(normalisation):
    """Torch's meta device computes shapes alone, and mixes with no other."""
    tensor = model_tensor(item(PIXELS, DType.UINT8, normalisation), dtype=torch.bfloat16, device="meta")

    assert (tensor.device.type, tensor.dtype) == ("meta", torch.bfloat16)
    assert tensor.shape == ((1, 8) if normalisation else PIXELS.shape)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_gives_the_values_of_the_cpu():
    """Within the last bit of float32."""
    pixels = (np.arange(3 * 196) % 256).astype(np.uint8).reshape(1, 3, 196)
    normalisation = Normalisation((122.5, 116.25, 104.0), (68.5, 66.6, 70.3), 2)

    tensor = model_tensor(item(pixels, DType.UINT8, normalisation), device="cuda")

    assert tensor.device.type == "cuda"
    expected = model_tensor(item(pixels, DType.UINT8, normalisation))
    torch.testing.assert_close(tensor.cpu(), expected, rtol=2**-23, atol=0)
