"""The checks that stand between a processor and the pool. A result that fails one is never parked.

A failure here is the processor's fault, not the caller's: it becomes a 500 that names the item and the two
numbers that disagree.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from forebay.dtypes import DType
from forebay.errors import Failed
from forebay.features import Attribute, Feature, Item, Normalisation, Output, Processed

_INT64_MAX = 2**63 - 1
_BF16_EXPONENT = np.uint16(0x7F80)
_CHUNK = 1 << 16


def validate(output: Output, *, rows_per_token: int | None = None) -> None:
    """Refuse an output that a scheduler could not trust.

    Args:
        output: what the processor returned.
        rows_per_token: feature rows behind one token, where the family declares it.

    Raises:
        Failed: with code ``invalid_result``.
    """
    for number, item in enumerate(output.items):
        validate_processed(item, f"multimodal item {number}", rows_per_token=rows_per_token)
    validate_layout(output)


def validate_processed(item: Item | Processed, name: str, *, rows_per_token: int | None = None) -> None:
    """Refuse what a processor made of one item, wherever in a prompt it may stand.

    Args:
        item: what it made.
        name: the item, for the message.
        rows_per_token: feature rows behind one token, where the family declares it.

    Raises:
        Failed: with code ``invalid_result``.
    """
    _check_feature(item.feature, name)
    _check_normalisation(item.feature, name)
    _check_rows(item, name, rows_per_token)
    _check_attributes(item, name)


def validate_layout(output: Output) -> None:
    """Refuse spans and positions that do not fit the prompt. The features are not looked at.

    Raises:
        Failed: with code ``invalid_result``.
    """
    length = _check_ids(output)
    for number, item in enumerate(output.items):
        _check_spans(item, f"multimodal item {number}", length)
    _check_disjoint(output)
    _check_positions(output, length)


def _fail(message: str) -> Failed:
    return Failed("invalid_result", f"the processor returned an invalid result: {message}")


def _check_ids(output: Output) -> int:
    ids = output.input_ids
    if ids.ndim != 1 or ids.dtype != np.int64:
        raise _fail(f"input_ids must be int64 [n], got {ids.dtype} {list(ids.shape)}")
    if ids.size == 0:
        raise _fail("input_ids is empty")
    return int(ids.size)


def _check_feature(feature: Feature, name: str) -> None:
    if not isinstance(feature.dtype, DType):
        raise _fail(f"{name}: unknown dtype {feature.dtype!r}")
    if feature.array.dtype != feature.dtype.carrier:
        raise _fail(f"{name}: dtype {feature.dtype} is carried as {feature.dtype.carrier}, got {feature.array.dtype}")
    if any(side < 0 for side in feature.shape):
        raise _fail(f"{name}: shape {list(feature.shape)} has a negative side")
    expected = math.prod(feature.shape)  # Python integers do not overflow
    if expected > _INT64_MAX or expected != feature.array.size:
        raise _fail(f"{name}: feature shape does not match its data: {expected} elements, {feature.array.size} given")
    if expected == 0:
        raise _fail(f"{name}: the feature is empty")
    if not feature.array.flags.c_contiguous:
        raise _fail(f"{name}: the feature is not contiguous")
    if feature.dtype.is_float and not _is_finite(feature):
        raise _fail(f"{name}: the feature holds NaN or infinity")


def _check_normalisation(feature: Feature, name: str) -> None:
    normalisation = feature.normalisation
    if normalisation is None:
        return
    if feature.dtype is not DType.UINT8:
        raise _fail(f"{name}: a normalisation goes with uint8, the feature is {feature.dtype}")
    if len(feature.shape) != 3:
        raise _fail(f"{name}: a feature with a normalisation has 3 axes, this one has {len(feature.shape)}")
    channels, means, deviations = feature.shape[1], len(normalisation.mean), len(normalisation.std)
    if means != channels or deviations != channels:
        raise _fail(f"{name}: {means} means and {deviations} deviations for {channels} channels")
    _check_constants(normalisation, name)
    if not isinstance(normalisation.copies, int) or normalisation.copies < 1:
        raise _fail(f"{name}: {normalisation.copies} temporal copies, at least 1 expected")


def _check_constants(normalisation: Normalisation, name: str) -> None:
    """Judge the constants as the float32 that a reader computes with."""
    constants = (*normalisation.mean, *normalisation.std)
    odd = next((value for value in constants if not isinstance(value, int | float)), None)
    if odd is not None:
        raise _fail(f"{name}: the normalisation must hold Python floats, got {type(odd).__name__}")
    with np.errstate(over="ignore", under="ignore"):
        as_read = np.array(constants, np.float32)
    if not np.isfinite(as_read).all():
        raise _fail(f"{name}: the normalisation holds NaN or infinity")
    deviations = as_read[len(normalisation.mean) :]
    if not deviations.all():
        raise _fail(f"{name}: the deviation of channel {np.flatnonzero(deviations == 0)[0]} is 0")


def _is_finite(feature: Feature) -> bool:
    """Look at every element, without a temporary of the feature's size."""
    flat = feature.array.reshape(-1)
    # NaN and infinity survive in a sum of squares, so a finite one proves all finite, in the fewest passes over the
    # memory that NumPy offers. Large but finite values overflow it; the slower test below settles those.
    if feature.dtype is DType.FLOAT32 and math.isfinite(_sum_of_squares(flat)):
        return True
    return all(_chunk_is_finite(flat[start : start + _CHUNK], feature.dtype) for start in range(0, flat.size, _CHUNK))


def _sum_of_squares(flat: np.ndarray) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(flat, flat))


def _chunk_is_finite(chunk: np.ndarray, dtype: DType) -> bool:
    if dtype is DType.BFLOAT16:
        return not bool(((chunk & _BF16_EXPONENT) == _BF16_EXPONENT).any())
    # min and max are NaN when any element is.
    return math.isfinite(chunk.min()) and math.isfinite(chunk.max())


def _check_spans(item: Item, name: str, length: int) -> None:
    if not item.spans:
        raise _fail(f"{name}: no token span")
    for span in item.spans:
        if not 0 <= span.first <= span.last < length:
            raise _fail(
                f"{name}: token offsets are outside the expanded prompt: [{span.first}, {span.last}] of {length} tokens"
            )
    covered = sum(span.length for span in item.spans)
    if covered != item.tokens:
        raise _fail(f"{name}: spans cover {covered} tokens, the item has {item.tokens}")


def _check_rows(item: Item | Processed, name: str, rows_per_token: int | None) -> None:
    if rows_per_token is None:
        return
    rows = item.feature.shape[0] if item.feature.shape else 0
    if rows != item.tokens * rows_per_token:
        raise _fail(f"{name}: {rows} feature rows for {item.tokens} tokens, {item.tokens * rows_per_token} expected")


def _check_attributes(item: Item | Processed, name: str) -> None:
    for key, value in item.model_specific.items():
        if not _is_attribute(value):
            raise _fail(f"{name}: model-specific {key!r} must be a 64-bit integer, a finite float, or a list of them")


def _is_attribute(value: Attribute) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(_is_number(number) for number in values)


def _is_number(value: object) -> bool:
    """Whether it travels as it is: NumPy's own numbers do not, nor do truth values."""
    if type(value) is float:
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value <= _INT64_MAX


def _check_disjoint(output: Output) -> None:
    """Spans ascend within an item, and no token belongs to two items."""
    for number, item in enumerate(output.items):
        for before, after in pairwise(item.spans):
            if after.first <= before.last:
                raise _fail(f"multimodal item {number}: token spans are not sorted and disjoint")
    ordered = sorted((span.first, span.last) for item in output.items for span in item.spans)
    for (_, last), (first, _) in pairwise(ordered):
        if first <= last:
            raise _fail(f"two multimodal items share token {first}")


def _check_positions(output: Output, length: int) -> None:
    if output.positions is None:
        return
    mrope = output.positions.mrope
    if mrope.dtype != np.int64 or mrope.shape != (3, length):
        raise _fail(
            "multimodal M-RoPE positions do not match the expanded prompt: "
            f"{mrope.dtype} {list(mrope.shape)}, int64 [3, {length}] expected"
        )
