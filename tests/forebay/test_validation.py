"""The checks between a processor and the pool: each rule refuses with the numbers that disagree."""

from dataclasses import replace

import numpy as np
import pytest

from forebay import DType, Failed, Feature, Item, Modality, Normalisation, Output, Positions, Span
from forebay.validation import _CHUNK, validate

MAX = np.float32(np.finfo(np.float32).max)


def ids(length=6):
    return np.arange(length, dtype=np.int64)


def item(*spans, rows=2, tokens=None, feature=None, **more):
    """Two rows of three for tokens 1 and 2, unless told otherwise."""
    spans = spans or (Span(1, 2),)
    feature = feature or Feature.of(np.ones((rows, 3), np.float32), DType.FLOAT32)
    return Item(Modality.IMAGE, feature, spans, sum(s.length for s in spans) if tokens is None else tokens, **more)


def output(*items, length=6, positions=None):
    return Output(ids(length), items, positions)


def refused(bad, **options):
    """The message with which an output is refused."""
    with pytest.raises(Failed) as caught:
        validate(bad, **options)
    assert (caught.value.code, caught.value.status) == ("invalid_result", 500)
    start = "the processor returned an invalid result: "
    assert caught.value.message.startswith(start)
    return caught.value.message.removeprefix(start)


def of_feature(array, dtype=DType.FLOAT32, shape=None, normalisation=None):
    return output(item(feature=Feature(array, dtype, shape or tuple(array.shape), normalisation)))


def of_pixels(mean=(1.0, 2.0), std=(3.0, 4.0), copies=1, *, shape=(2, 2, 5), dtype=DType.UINT8):
    """Two rows of two channels of five pixels, and how a reader normalises them."""
    return of_feature(np.ones(shape, dtype.carrier), dtype, normalisation=Normalisation(mean, std, copies))


@pytest.mark.parametrize(
    "good",
    [
        output(),
        output(item()),
        output(item(Span(0, 0), Span(5, 5)), item(Span(1, 4))),
        output(item(Span(4, 5)), item(Span(0, 1))),
        output(item(), positions=Positions(np.zeros((3, 6), np.int64), -4)),
        of_feature(np.ones((2, 3), np.int64), DType.INT64),
        of_feature(np.ones((2, 3), np.uint8), DType.UINT8),
        of_pixels(),
        of_pixels((0.0, -1e30), (1e-30, -1.0), copies=4),
        of_feature(np.full((2, 3), 0x7F7F, np.uint16), DType.BFLOAT16),  # the largest finite bfloat16
        of_feature(np.full((2, 3), -MAX, np.float32)),
        output(item(model_specific={"grid": [1, 2, -(2**63)], "n": 2**63 - 1, "none": []})),
    ],
)
def test_a_sound_result_passes(good):
    """Every rule has a side on which nothing is said."""
    assert validate(good) is None


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(3, dtype=np.int32), "input_ids must be int64 [n], got int32 [3]"),
        (np.zeros((1, 3), np.int64), "input_ids must be int64 [n], got int64 [1, 3]"),
        (np.zeros(0, np.int64), "input_ids is empty"),
    ],
)
def test_the_prompt_is_a_row_of_int64(array, message):
    """Schedulers map it without looking."""
    assert refused(Output(array)) == message


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (of_feature(np.ones((2, 3), np.float64)), "dtype float32 is carried as float32, got float64"),
        (of_feature(np.ones((2, 3), np.float32), DType.BFLOAT16), "dtype bfloat16 is carried as uint16, got float32"),
        (of_feature(np.ones((2, 3), ">f4")), "dtype float32 is carried as float32, got >f4"),
        (of_feature(np.ones((2, 3), np.float32), "float16"), "unknown dtype 'float16'"),
        (
            of_feature(np.ones(6, np.float32), shape=(2, 4)),
            "feature shape does not match its data: 8 elements, 6 given",
        ),
        (of_feature(np.ones(6, np.float32), shape=(-2, -3)), "shape [-2, -3] has a negative side"),
        (
            of_feature(np.ones(4, np.float32), shape=(2**33, 2**33)),
            f"feature shape does not match its data: {2**66} elements, 4 given",
        ),
        (
            of_feature(np.ones(4, np.float32), shape=(2**62 + 1, 4)),
            f"feature shape does not match its data: {2**64 + 4} elements, 4 given",
        ),
        (of_feature(np.ones((0, 3), np.float32)), "the feature is empty"),
        (of_feature(np.ones((3, 2), np.float32).T), "the feature is not contiguous"),
        (of_feature(np.ones((2, 6), np.float32)[:, ::2]), "the feature is not contiguous"),
    ],
)
def test_a_feature_is_what_it_says(bad, message):
    """Type, shape and order of the bytes; a product is never taken modulo 2^64."""
    assert refused(bad) == f"multimodal item 0: {message}"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (of_pixels(dtype=DType.FLOAT32), "a normalisation goes with uint8, the feature is float32"),
        (of_pixels(dtype=DType.BFLOAT16), "a normalisation goes with uint8, the feature is bfloat16"),
        (of_pixels(shape=(2, 10)), "a feature with a normalisation has 3 axes, this one has 2"),
        (of_pixels(shape=(2, 2, 1, 5)), "a feature with a normalisation has 3 axes, this one has 4"),
        (of_pixels(mean=(1.0,)), "1 means and 2 deviations for 2 channels"),
        (of_pixels(std=(1.0, 1.0, 1.0)), "2 means and 3 deviations for 2 channels"),
        (of_pixels(shape=(2, 3, 5)), "2 means and 2 deviations for 3 channels"),
        (of_pixels(mean=(1.0, float("nan"))), "the normalisation holds NaN or infinity"),
        (of_pixels(std=(float("inf"), 1.0)), "the normalisation holds NaN or infinity"),
        (of_pixels(mean=(1e300, 0.0)), "the normalisation holds NaN or infinity"),  # as float32 it does
        (of_pixels(std=(-1.0, 0.0)), "the deviation of channel 1 is 0"),
        (of_pixels(std=(1e-60, 1.0)), "the deviation of channel 0 is 0"),  # as float32 it is
        (of_pixels(mean=(np.float32(1), 0.0)), "the normalisation must hold Python floats, got float32"),
        (of_pixels(copies=0), "0 temporal copies, at least 1 expected"),
        (of_pixels(copies=1.5), "1.5 temporal copies, at least 1 expected"),
    ],
)
def test_a_normalisation_can_be_carried_out(bad, message):
    """A reader does it without looking, in float32, channel by channel."""
    assert refused(bad) == f"multimodal item 0: {message}"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_one_float_that_is_not_finite_is_enough(value, place):
    """Wherever it stands."""
    array = np.ones((2, 3), np.float32)
    array.reshape(-1)[place] = value

    assert refused(of_feature(array)) == "multimodal item 0: the feature holds NaN or infinity"


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0, 0x7F81])
def test_one_bfloat16_that_is_not_finite_is_enough(bits):
    """Its bits are looked at as what they mean."""
    array = np.ones((2, 3), np.uint16)
    array[1, 2] = bits

    assert refused(of_feature(array, DType.BFLOAT16)) == "multimodal item 0: the feature holds NaN or infinity"


@pytest.mark.parametrize("place", [0, _CHUNK - 1, _CHUNK, 2 * _CHUNK])
def test_every_element_of_a_large_feature_is_looked_at(place):
    """The chunks of the search leave no gap."""
    array = np.zeros((1, 2 * _CHUNK + 1), np.float32)
    array[0, place] = np.nan

    assert refused(of_feature(array)) == "multimodal item 0: the feature holds NaN or infinity"


@pytest.mark.parametrize("span", [Span(-1, 0), Span(5, 6), Span(6, 6), Span(3, 2)])
def test_a_span_lies_within_the_prompt(span):
    """Ends are inclusive, so the last token is the last that may be named."""
    bad = output(item(span, tokens=span.length))

    expected = f"token offsets are outside the expanded prompt: [{span.first}, {span.last}] of 6 tokens"
    assert refused(bad) == f"multimodal item 0: {expected}"


def test_an_item_has_a_span():
    """A feature that no token carries would be dropped without a word."""
    bad = output(replace(item(), spans=()))

    assert refused(bad) == "multimodal item 0: no token span"


def test_spans_and_tokens_agree():
    """The second item is the one that is named."""
    bad = output(item(Span(0, 0)), item(Span(1, 2), tokens=3))

    assert refused(bad) == "multimodal item 1: spans cover 2 tokens, the item has 3"


@pytest.mark.parametrize("spans", [(Span(3, 4), Span(1, 2)), (Span(1, 2), Span(2, 3)), (Span(1, 1), Span(1, 1))])
def test_spans_of_an_item_ascend(spans):
    """They name the rows of its feature in order."""
    assert refused(output(item(*spans))) == "multimodal item 0: token spans are not sorted and disjoint"


@pytest.mark.parametrize(("one", "other", "token"), [((0, 2), (2, 4), 2), ((3, 5), (0, 3), 3), ((0, 5), (2, 3), 2)])
def test_no_token_belongs_to_two_items(one, other, token):
    """In whichever order the items come, also one within the other."""
    assert refused(output(item(Span(*one)), item(Span(*other)))) == f"two multimodal items share token {token}"


@pytest.mark.parametrize(("rows", "rows_per_token", "expected"), [(3, 1, 2), (2, 4, 8), (0, 1, 2)])
def test_rows_and_tokens_agree_where_the_family_says_how(rows, rows_per_token, expected):
    """A count computed in two places must come out the same in both."""
    feature = Feature.of(np.ones((rows, 3) if rows else (), np.float32), DType.FLOAT32)

    message = refused(output(item(feature=feature)), rows_per_token=rows_per_token)

    assert message == f"multimodal item 0: {rows} feature rows for 2 tokens, {expected} expected"


def test_one_token_too_many_is_found():
    """C040: 3388 rows of patches are 847 tokens, whatever another formula says."""
    ids = np.arange(1000, dtype=np.int64)
    odd = item(Span(0, 847), feature=Feature.of(np.ones((3388, 3), np.float32), DType.FLOAT32))

    message = refused(Output(ids, (odd,), None), rows_per_token=4)

    assert message == "multimodal item 0: 3388 feature rows for 848 tokens, 3392 expected"


def test_rows_are_free_where_the_family_does_not_say():
    """Not every model has rows a token."""
    assert validate(output(item(rows=5))) is None
    assert validate(output(item(rows=8)), rows_per_token=4) is None


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "a", True, None, 2**63, -(2**63) - 1, [1, "a"], [True], [[1]], (1, 2), np.int64(1)],
)
def test_model_specific_values_are_numbers_or_lists_of_them(value):
    """They travel in the ticket, and only the model reads them."""
    bad = output(item(model_specific={"ok": 1, "odd": value}))

    name = "multimodal item 0: model-specific 'odd'"
    assert refused(bad) == f"{name} must be a 64-bit integer, a finite float, or a list of them"


@pytest.mark.parametrize("value", [0, -1, 0.5, [1, 2], [0.25, 2]])
def test_model_specific_numbers_are_taken(value):
    """A float where a second is meant: it travels as it is."""
    assert validate(output(item(model_specific={"ok": value}))) is None


@pytest.mark.parametrize(
    ("mrope", "got"),
    [
        (np.zeros((3, 5), np.int64), "int64 [3, 5]"),
        (np.zeros((6, 3), np.int64), "int64 [6, 3]"),
        (np.zeros((3, 6), np.int32), "int32 [3, 6]"),
        (np.zeros(18, np.int64), "int64 [18]"),
    ],
)
def test_positions_belong_to_the_expanded_prompt(mrope, got):
    """Three rows, one column a token."""
    bad = output(item(), positions=Positions(mrope, 0))

    expected = f"multimodal M-RoPE positions do not match the expanded prompt: {got}, int64 [3, 6] expected"
    assert refused(bad) == expected
