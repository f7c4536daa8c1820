"""The size of a picture decides its grid, as in Hugging Face transformers 5.24.0."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay import Rejected
from processors.qwen_vl.geometry import Geometry, Grid
from processors.qwen_vl.settings import QWEN2, QWEN3

Q2 = QWEN2.geometry
Q3 = QWEN3.geometry


@pytest.mark.parametrize(
    ("height", "width", "fitted", "tokens"),
    [
        pytest.param(1, 1, (56, 56), 4, id="C013 one pixel"),
        pytest.param(1, 200, (28, 812), 29, id="C013, C018 one row"),
        pytest.param(14, 700, (28, 420), 15, id="C018 thin"),
        pytest.param(26, 28, (56, 84), 6, id="C015 shorter than the factor"),
        pytest.param(27, 332, (28, 336), 12, id="C015 wide and shorter than the factor"),
        pytest.param(28, 28, (56, 56), 4, id="C020 first"),
        pytest.param(225, 300, (224, 308), 88, id="C020 second"),
        pytest.param(42, 42, (56, 56), 4, id="half rounds to even, up"),
        pytest.param(70, 70, (56, 56), 4, id="half rounds to even, down"),
        pytest.param(56, 84, (56, 84), 6, id="fits already"),
        pytest.param(720, 1280, (728, 1288), 1196, id="720p"),
        pytest.param(4000, 4000, (3584, 3584), 16384, id="at most 16384 tokens"),
    ],
)
def test_a_picture_is_fitted_to_whole_tokens(height, width, fitted, tokens):
    """Sides are multiples of 28, near the picture's own, within the limits where its shape allows."""
    grid = Q2.grid(height, width)

    assert Q2.fit(height, width) == fitted
    assert grid == Grid(1, fitted[0] // 14, fitted[1] // 14)
    assert Q2.tokens(grid) == tokens


@pytest.mark.parametrize(
    ("height", "width", "grid"),
    [
        pytest.param(1, 1, Grid(1, 16, 16), id="C013 one pixel"),
        pytest.param(30, 305, Grid(1, 6, 52), id="C015 shorter than the factor"),
        pytest.param(120, 160, Grid(1, 14, 20), id="enlarged to 64 tokens at least"),
    ],
)
def test_qwen3_counts_in_patches_of_sixteen(height, width, grid):
    """The same rule with factor 32 and other limits."""
    assert Q3.grid(height, width) == grid


@pytest.mark.parametrize(
    ("height", "width", "said"), [(5, 1093, "218.6"), (1, 201, "201"), (201, 1, "201"), (10, 2001, "200.1")]
)
def test_a_picture_too_long_for_its_breadth_is_refused(height, width, said):
    """C014: one side is at most 200 times the other; the caller learns the ratio and the field."""
    with pytest.raises(Rejected) as caught:
        Q2.grid(height, width, "image_data[1]")

    assert caught.value.code == "aspect_ratio"
    assert caught.value.message == f"aspect ratio must be at most 200, got {said}"
    assert caught.value.param == "image_data[1]"
    assert caught.value.status == 400


def test_a_ratio_a_hair_above_the_limit_is_not_said_to_be_the_limit():
    """The message never contradicts itself."""
    with pytest.raises(Rejected, match=r"got 200\.001$"):
        Q2.grid(1000, 200_001)


@pytest.mark.parametrize(("height", "width"), [(10, 2000), (200, 1), (1, 200)])
def test_a_ratio_of_exactly_two_hundred_is_accepted(height, width):
    """C014: the limit belongs to the accepted side."""
    assert Q2.grid(height, width).patches > 0


@pytest.mark.parametrize(("height", "width"), [(0, 10), (10, 0), (0, 0)])
def test_a_picture_without_pixels_is_refused_not_divided_by(height, width):
    """C013: width 0 is the caller's mistake."""
    with pytest.raises(Rejected) as caught:
        Q2.grid(height, width)

    assert caught.value.code == "empty_image"


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([Q2, Q3, Geometry(14, 2, 2, 50_000, 60_000)]))
def test_both_sides_are_whole_tokens_and_never_nothing(height, width, geometry):
    """Whatever the size, the grid is made of merge x merge squares of patches."""
    if max(height, width) / min(height, width) > 200:
        return
    fitted = geometry.fit(height, width)

    assert all(side >= geometry.factor and side % geometry.factor == 0 for side in fitted)
    assert geometry.tokens(geometry.grid(height, width)) * geometry.merge**2 == geometry.grid(height, width).patches
