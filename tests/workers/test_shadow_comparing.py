"""What two outputs of one request differ in, by kind and in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forebay import DType, Feature, Item, Modality, Output, Positions, Span
from forebay.features import Normalisation
from handoff.sample import pack_output, unpack_output
from workers.shadow.comparing import compare, max_abs_error

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
LINE = np.stack([np.arange(4, dtype=np.int64)] * 3)


def item(values=VALUES, dtype=DType.FLOAT32, **changed) -> Item:
    told = {"rows": 2, "scale": 1.5, "grid": [1, 2, 3]}
    made = Item(Modality.IMAGE, Feature.of(values, dtype), (Span(1, 2),), 2, 7, "sha256:x", told)
    return replace(made, **changed)


def output(*items: Item, ids=(1, 7, 7, 2), positions=None) -> Output:
    return Output(np.array(ids, np.int64), items or (item(),), positions or Positions(LINE, -3))


def test_equal_ones_have_no_difference():
    """Also after one of them has been packed, as samples are."""
    pixels = item(np.ones((2, 3, 4), np.uint8), DType.UINT8)
    pixels = replace(pixels, feature=replace(pixels.feature, normalisation=Normalisation((1.0,) * 3, (2.0,) * 3, 2)))
    one = output(item(), pixels, item(np.array([[0x3F80]], np.uint16), DType.BFLOAT16))

    assert compare(one, unpack_output(pack_output(one))) == ([], 0.0)


def test_a_text_alone_is_compared_too():
    """It has neither items nor positions."""
    text = Output(np.array([1, 2], np.int64))

    assert compare(text, unpack_output(pack_output(text))) == ([], 0.0)


@pytest.mark.parametrize(
    ("other", "kind", "said"),
    [
        (output(item(), item()), "items", "1 items, then 2"),
        (output(ids=(1, 7, 7, 3)), "ids", "input_ids: token 3 is 2, then 3"),
        (output(ids=(1, 7, 7)), "ids", "input_ids: 4 tokens, then 3"),
        (output(positions=Positions(LINE + 1, -3)), "positions", "positions: [3, 4] with delta -3, then [3, 4]"),
        (output(positions=Positions(LINE, 0)), "positions", "with delta 0"),
        (output(item(VALUES.reshape(3, 2))), "shape", "item 0: shape [2, 3], then [3, 2]"),
        (output(item(VALUES.astype(np.int64), DType.INT64)), "dtype", "item 0: dtype float32, then int64"),
        (output(item(spans=(Span(1, 1), Span(3, 3)))), "spans", "item 0: spans [[1, 2]], then [[1, 1], [3, 3]]"),
        (output(item(tokens=3)), "tokens", "item 0: tokens 2, then 3"),
        (output(item(hash=8)), "hash", "item 0: hash 7, then 8"),
        (output(item(modality=Modality.VIDEO)), "modality", "item 0: modality image, then video"),
        (output(item(model_specific={"rows": 2, "scale": 1.5})), "model_specific", "grid [1, 2, 3], then None"),
        (output(item(VALUES + np.float32(0.5))), "values", "item 0: values differ by 0.5 at most"),
    ],
)
def test_each_difference_is_told_with_both_sides(other, kind, said):
    """And only that one."""
    [found] = compare(output(), other)[0]

    assert found.kind == kind
    assert said in found.said


def test_an_error_within_the_tolerance_is_told_and_no_difference():
    """It is the largest of all items."""
    other = output(item(VALUES + np.float32(0.25)))

    assert compare(output(), other, tolerance=0.25) == ([], 0.25)


def test_bfloat16_is_held_against_float32_by_value():
    """Its bits are carried as uint16."""
    bits = (VALUES.view(np.uint32) >> 16).astype(np.uint16)

    assert max_abs_error(Feature.of(VALUES, DType.FLOAT32), Feature.of(bits, DType.BFLOAT16)) == 0.0
    assert max_abs_error(Feature.of(bits + 1, DType.BFLOAT16), Feature.of(bits, DType.BFLOAT16)) > 0.0


def test_other_types_and_shapes_are_not_held_against_each_other():
    """Their errors would say nothing."""
    numbers = Feature.of(VALUES.astype(np.int64), DType.INT64)

    assert max_abs_error(Feature.of(VALUES, DType.FLOAT32), numbers) is None
    assert max_abs_error(Feature.of(VALUES, DType.FLOAT32), Feature.of(VALUES[:1], DType.FLOAT32)) is None


def test_whole_numbers_are_compared_to_their_last_digit():
    """float64 has fewer of them."""
    one, other = (Feature.of(np.array([value], np.int64), DType.INT64) for value in (2**53, 2**53 + 1))

    assert max_abs_error(one, other) == 1.0
    assert max_abs_error(one, one) == 0.0


def test_a_large_feature_is_looked_at_whole():
    """Piece by piece; the last piece counts."""
    large = np.zeros(600_000, np.float32)
    other = large.copy()
    other[-1] = 2.0

    assert max_abs_error(Feature.of(large, DType.FLOAT32), Feature.of(other, DType.FLOAT32)) == 2.0


def test_what_another_release_has_packed_is_not_read():
    """It may mean something else."""
    with pytest.raises(ValueError, match="output version 9; this release reads 1"):
        unpack_output(b"\x94\x09\xc0\xc0\xc0")
