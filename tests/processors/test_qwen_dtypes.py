"""The family's features in each element type: the same values, in fewer bytes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay import AdmittedItem, DType, Modality, ModelSource, Normalisation, Prompt, Work
from forebay.testing import check_processor
from processors.qwen_vl import Qwen2VL, Qwen3VL
from processors.qwen_vl.geometry import Geometry, Grid
from processors.qwen_vl.kernel import Kernel
from processors.qwen_vl.settings import QWEN2, QWEN3
from processors.qwen_vl.settings import Normalisation as UnitNormalisation
from scheduler.engines.tensors import model_tensor
from tests.processors.pictures import as_image, noise

PAD = 151655
FAMILIES = {"patch 14": Qwen2VL, "patch 16": Qwen3VL}
DTYPES = (DType.FLOAT32, DType.BFLOAT16, DType.UINT8)
MADE = {
    (name, dtype): cls(ModelSource("any", feature_dtype=dtype)) for name, cls in FAMILIES.items() for dtype in DTYPES
}
# Height and width: edges of the rules, several blocks of the kernel, and what people send.
SIZES = [(1, 1), (5, 7), (3, 600), (28, 28), (61, 53), (225, 300), (256, 256), (333, 517), (720, 1280)]


def process(name, dtype, pixels):
    picture = as_image(pixels)
    return MADE[name, dtype].process_item(picture, Work("r", Prompt(ids=(PAD,)), (picture,)))


def read(processed, dtype=torch.float32):
    """What an engine makes of the feature."""
    feature = processed.feature
    item = AdmittedItem(Modality.IMAGE, feature.array, feature.dtype, (), 0, {}, feature.normalisation)
    return model_tensor(item, dtype=dtype)


def bits(tensor):
    return tensor.contiguous().view({4: torch.int32, 2: torch.int16}[tensor.element_size()])


def rounded(mean, levels):
    """What bfloat16 the kernel makes of ``level - mean``, one level a pixel of a single patch."""
    geometry = Geometry(patch=2, merge=1, temporal=1, min_pixels=1, max_pixels=1 << 30)
    pixels = np.repeat(np.array(levels, np.uint8).reshape(2, 2, 1), 3, axis=2)
    feature = np.empty((1, 12), np.uint16)
    kernel = Kernel(geometry, UnitNormalisation((mean,) * 3, (1.0,) * 3, rescale=1.0), DType.BFLOAT16)
    kernel.write(pixels, Grid(1, 1, 1), feature)
    return torch.from_numpy(feature[0, :4]).view(torch.bfloat16).tolist()


# bfloat16


def test_a_tie_goes_to_the_even_neighbour():
    """Between 256 and 512 bfloat16 has the even numbers: 257 lies between two of them, and so does 259."""
    assert rounded(-256.0, [0, 1, 3, 5]) == [256, 256, 260, 260]
    assert rounded(511.0, [254, 252, 250, 248]) == [-256, -260, -260, -264]


def test_what_is_no_tie_goes_to_the_nearer_neighbour():
    """A little more or less than half way decides it."""
    assert rounded(-256.125, [0, 1, 3, 2]) == [256, 258, 260, 258]
    assert rounded(-255.875, [1, 2, 4, 3]) == [256, 258, 260, 258]


def test_nan_stays_nan():
    """Its low bits must not carry it over into infinity or zero; ``validate`` refuses it afterwards."""
    assert np.isnan(rounded(float("nan"), [0, 1, 2, 255])).all()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_bfloat16_is_the_float32_feature_rounded_as_torch_rounds_it(name, size):
    """Bit for bit, over pictures of several blocks."""
    pixels = noise(*size)

    half, full = process(name, DType.BFLOAT16, pixels), process(name, DType.FLOAT32, pixels)

    expected = torch.from_numpy(full.feature.array).to(torch.bfloat16)
    assert torch.equal(bits(torch.from_numpy(half.feature.array).view(torch.bfloat16)), bits(expected))
    assert torch.equal(read(half), expected.to(torch.float32))


# uint8


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_is_made_of_uint8_on_the_cpu_is_the_float32_feature(name, size):
    """Bit for bit: normalising later changes no value."""
    pixels = noise(*size)

    small, full = process(name, DType.UINT8, pixels), process(name, DType.FLOAT32, pixels)

    expected = torch.from_numpy(full.feature.array)
    assert torch.equal(bits(read(small)), bits(expected))
    assert torch.equal(bits(read(small, torch.bfloat16)), bits(expected.to(torch.bfloat16)))


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(FAMILIES)), height=st.integers(1, 400), width=st.integers(1, 400))
def test_all_dtypes_agree_whatever_the_size(name, height, width):
    """Thin pictures, blocks that do not divide evenly, and those that a resize changes."""
    if max(height, width) > 200 * min(height, width):
        height = width
    pixels = noise(height, width, seed=height)

    full = read(process(name, DType.FLOAT32, pixels))

    assert torch.equal(bits(read(process(name, DType.UINT8, pixels))), bits(full))
    assert torch.equal(read(process(name, DType.BFLOAT16, pixels)), full.to(torch.bfloat16).to(torch.float32))


def test_uint8_carries_the_pixels_channel_by_channel():
    """Before normalisation, and once, however many copies the model expects."""
    pixels = np.zeros((56, 56, 3), np.uint8)
    pixels[0, 0], pixels[0, 1], pixels[14, 0] = (1, 2, 3), (4, 5, 6), (7, 8, 9)

    feature = process("patch 14", DType.UINT8, pixels).feature

    assert feature.shape == (16, 3, 196)
    assert feature.array[0, :, :3].tolist() == [[1, 4, 0], [2, 5, 0], [3, 6, 0]]
    assert feature.array[2, :, 0].tolist() == [7, 8, 9]
    assert int(feature.array.sum()) == sum(range(1, 10))


@pytest.mark.parametrize(("name", "own"), [("patch 14", QWEN2), ("patch 16", QWEN3)])
def test_the_normalisation_is_in_float32_and_in_units_of_bytes(name, own):
    """The very constants that the float32 kernel subtracts and divides by."""
    normalisation = process(name, DType.UINT8, noise(28, 28)).feature.normalisation

    def in_bytes(channels):
        return tuple(float(np.float32(value) * np.float32(255)) for value in channels)

    assert normalisation == Normalisation(in_bytes(own.normalisation.mean), in_bytes(own.normalisation.std), copies=2)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(0, (-1.7922625, -1.7520971, -1.4802198), id="black"),
        pytest.param(255, (1.9303361, 2.0748838, 2.1458970), id="white"),
    ],
)
def test_black_and_white_have_the_models_own_values_after_all(level, expected):
    """C104: the constants, through pixels and the reader; both temporal copies."""
    tensor = read(process("patch 14", DType.UINT8, np.full((56, 56, 3), level, np.uint8)))

    assert tensor.shape == (16, 1176)
    for channel, values in enumerate(tensor.reshape(16, 3, 392).unbind(1)):
        # C103: the other backend divides by 255 first and rounds differently; these values may be its own.
        assert torch.allclose(values, torch.tensor(expected[channel]), rtol=0, atol=1e-6)


# Sizes and the contract


@pytest.mark.parametrize("name", FAMILIES)
def test_bfloat16_has_half_the_bytes_and_uint8_an_eighth(name):
    """One byte for four, and one copy for two; values in float32 and bfloat16 have the model's own shape."""
    full, half, small = (process(name, dtype, noise(225, 300)).feature for dtype in DTYPES)

    assert full.size_bytes == 2 * half.size_bytes == 8 * small.size_bytes
    assert half.shape == full.shape
    assert (full.normalisation, half.normalisation) == (None, None)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bytes_of_a_feature_are_known_from_the_size_alone(name, dtype):
    """The pool can reserve before anything is computed, and no more than is used."""
    for size in SIZES:
        picture, asked = as_image(noise(*size)), []

        def allocate(shape, kind, asked=asked):
            asked.append(np.empty(shape, kind.carrier))
            return asked[-1]

        work = Work("r", Prompt(ids=(PAD,)), (picture,), allocate=allocate)
        processed = MADE[name, dtype].process_item(picture, work)

        assert [array.nbytes for array in asked] == [MADE[name, dtype].feature_bytes(picture)]
        assert np.shares_memory(processed.feature.array, asked[0])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_small_features_keep_the_contract(name, dtype):
    """Valid, rows as many as tokens ask for, the same twice, independent of what ran between."""
    pictures = [as_image(noise(61, 53)), as_image(noise(5, 7))]

    output = check_processor(MADE[name, dtype], pictures, input_ids=(PAD, 1, PAD))

    assert [item.feature.dtype for item in output.items] == [dtype, dtype]
    assert [item.feature.shape[0] for item in output.items] == [item.tokens * 4 for item in output.items]
