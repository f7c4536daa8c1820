"""Pixels become patches in place: constants, order, and nothing left behind."""

import gc
import weakref

import numpy as np
import pytest

from processors.pixels.resize import resize
from processors.qwen_vl import kernel as kernel_module
from processors.qwen_vl.geometry import Geometry, Grid
from processors.qwen_vl.kernel import Kernel
from processors.qwen_vl.settings import QWEN2, QWEN3, Normalisation
from tests.processors.pictures import noise

RAW = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), rescale=1.0)  # bytes stay what they are


def features(pixels, geometry=QWEN2.geometry, normalisation=QWEN2.normalisation, grid=None):
    grid = grid or geometry.grid(*pixels.shape[:2])
    feature = np.full((grid.patches, geometry.patch_values), np.nan, np.float32)
    Kernel(geometry, normalisation).write(pixels, grid, feature)
    return feature


def by_hand(pixels, patch, merge, temporal):
    """The patch order, one value at a time."""
    rows = []
    for top in range(0, pixels.shape[0], patch * merge):
        for left in range(0, pixels.shape[1], patch * merge):
            for y in range(top, top + patch * merge, patch):
                for x in range(left, left + patch * merge, patch):
                    square = pixels[y : y + patch, x : x + patch]
                    rows.append([square[:, :, c].ravel() for c in range(3) for _ in range(temporal)])
    return np.array(rows, np.float32).reshape(len(rows), -1)


def test_patches_of_one_token_stand_together():
    """C104: patches go square by square, in reading order inside a square and from square to square."""
    pixels = np.zeros((56, 56, 3), np.uint8)
    for row in range(4):
        for column in range(4):
            pixels[row * 14 : (row + 1) * 14, column * 14 : (column + 1) * 14] = 4 * row + column

    feature = features(pixels, normalisation=RAW)

    assert feature[:, 0].tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]


def test_inside_a_patch_the_channel_comes_first_and_then_the_temporal_copy():
    """C104: columns are channel, temporal copy, row, column."""
    pixels = np.zeros((56, 56, 3), np.uint8)
    pixels[0, 0], pixels[0, 1] = (1, 2, 3), (4, 5, 6)

    row = features(pixels, normalisation=RAW)[0]

    at = np.flatnonzero(row)
    assert at.tolist() == [0, 1, 196, 197, 392, 393, 588, 589, 784, 785, 980, 981]
    assert row[at].tolist() == [1, 4, 1, 4, 2, 5, 2, 5, 3, 6, 3, 6]


@pytest.mark.parametrize(
    ("settings", "size", "level", "expected"),
    [
        pytest.param(QWEN2, 56, 0, (-1.7922625, -1.7520971, -1.4802198), id="CLIP black"),
        pytest.param(QWEN2, 56, 255, (1.9303361, 2.0748838, 2.1458970), id="CLIP white"),
        pytest.param(QWEN3, 256, 0, (-1, -1, -1), id="Qwen3 black"),
        pytest.param(QWEN3, 256, 255, (1, 1, 1), id="Qwen3 white"),
    ],
)
def test_black_and_white_have_the_models_own_values(settings, size, level, expected):
    """C104: the constants of each model, channel by channel."""
    pixels = np.full((size, size, 3), level, np.uint8)

    feature = features(pixels, settings.geometry, settings.normalisation)

    channels = feature.reshape(len(feature), 3, -1)
    for channel, value in enumerate(expected):
        # C103: the other backend divides by 255 first and rounds differently; these values may be its own.
        assert np.allclose(channels[:, channel], value, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("patch", "merge", "temporal"), [(14, 2, 2), (16, 2, 2), (14, 1, 2), (7, 3, 1), (4, 2, 3)], ids=str
)
def test_the_order_holds_for_any_geometry(patch, merge, temporal):
    """The fast path gives what the definition gives, value by value."""
    geometry = Geometry(patch, merge, temporal, 1, 1 << 30)
    pixels = noise(3 * patch * merge, 5 * patch * merge)

    feature = features(pixels, geometry, RAW)

    assert np.array_equal(feature, by_hand(pixels, patch, merge, temporal))


@pytest.mark.parametrize("block_bytes", [1, 20_000, 60_000, 1 << 30])
def test_block_size_changes_no_value(monkeypatch, block_bytes):
    """Blocks are for the cache only; pictures that do not divide evenly into them are complete too."""
    pixels = noise(5 * 28, 7 * 28)
    expected = by_hand(pixels, 14, 2, 2)

    monkeypatch.setattr(kernel_module, "BLOCK_BYTES", block_bytes)

    assert np.array_equal(features(pixels, normalisation=RAW), expected)


def test_every_channel_level_is_normalised_as_the_formula_says():
    """All 256 levels of all three channels: subtract mean * 255, then divide by std * 255, in float32."""
    pixels = np.zeros((112, 112, 3), np.uint8)
    pixels.reshape(-1, 3)[:256] = np.arange(256)[:, None]
    mean, std = (np.float32(part) * np.float32(255) for part in (QWEN2.normalisation.mean, QWEN2.normalisation.std))

    feature = features(pixels)

    raw = features(pixels, normalisation=RAW).reshape(-1, 3, 392)
    assert np.array_equal(feature.reshape(-1, 3, 392), (raw - mean[:, None]) / std[:, None])


def test_a_picture_that_fits_is_not_resized():
    """The pixels themselves are read, without a copy."""
    pixels = noise(56, 84)

    assert resize(pixels, 56, 84) is pixels


def test_read_only_and_strided_pixels_give_the_same_features():
    """A decoder may hand over memory that it owns, or a view."""
    pixels = noise(61, 53)
    frozen = pixels.copy()
    frozen.flags.writeable = False
    strided = np.asfortranarray(pixels)

    expected = features(pixels)

    assert np.array_equal(features(frozen), expected)
    assert np.array_equal(features(strided), expected)


def test_the_same_picture_gives_the_same_features_whatever_came_between():
    """No state: a call is a function of its picture."""
    geometry = QWEN2.geometry
    kernel = Kernel(geometry, QWEN2.normalisation)
    first, other = noise(97, 131), noise(300, 225, seed=1)
    grid, other_grid = geometry.grid(97, 131), geometry.grid(300, 225)
    once = np.empty((grid.patches, geometry.patch_values), np.float32)
    again = np.empty_like(once)

    kernel.write(first, grid, once)
    kernel.write(other, other_grid, np.empty((other_grid.patches, geometry.patch_values), np.float32))
    kernel.write(first, grid, again)

    assert np.array_equal(once, again)


def test_nothing_of_a_picture_outlives_its_call():
    """Neither the pixels nor the feature is held by the kernel or by torch."""
    kernel = Kernel(QWEN2.geometry, QWEN2.normalisation)
    pixels, feature = noise(60, 60), np.empty((16, 1176), np.float32)
    gone = weakref.ref(pixels), weakref.ref(feature)

    kernel.write(pixels, Grid(1, 4, 4), feature)
    del pixels, feature
    gc.collect()

    assert [reference() for reference in gone] == [None, None]
