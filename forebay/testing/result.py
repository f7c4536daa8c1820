"""Checks of what a processor returns: that there is a result, and that a scheduler could trust every part of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from forebay.drive import check_items
from forebay.dtypes import DType
from forebay.errors import Failed, Rejected
from forebay.features import Feature, Item, Output
from forebay.outcome import outcome_of
from forebay.processor import Prompt
from forebay.testing.report import Fault, NotRun
from forebay.testing.subject import Request, Snapshot, Subject, prompt_for
from forebay.validation import validate_layout, validate_processed

_BF16_EXPONENT = np.uint16(0x7F80)


def check_capabilities(subject: Subject) -> str:
    """What is declared can be kept."""
    capabilities = subject.capabilities
    if not capabilities.modalities:
        raise Fault("it declares no modality, so it can be asked for nothing")
    for modality, limit in capabilities.modalities.items():
        if not isinstance(limit, int) or limit < 1:
            raise Fault(f"it takes {limit!r} items of {modality}: leave the modality out, or say a number from 1 on")
        if subject.has_usual_flow and modality not in capabilities.placeholders:
            raise Fault(f"it takes {modality}, but names no placeholder for it, so no prompt can hold one")
    ids = list(capabilities.placeholders.values())
    if len(set(ids)) < len(ids):
        raise Fault(f"two modalities have the same placeholder: {ids}")
    vocabulary = capabilities.vocabulary
    beyond = [one for one in ids if one < 0 or (vocabulary is not None and one >= vocabulary)]
    if beyond:
        raise Fault(f"the placeholder {beyond[0]} is outside the vocabulary of {vocabulary}")
    _check_fields(subject)
    return ", ".join(f"{limit} {modality}" for modality, limit in capabilities.modalities.items())


def _check_fields(subject: Subject) -> None:
    capabilities = subject.capabilities
    known = set(capabilities.extensions.model_fields) if capabilities.extensions else set()
    unknown = sorted(set(capabilities.item_fields or ()) - known)
    if unknown:
        raise Fault(f"item_fields names {unknown[0]!r}, which is no field of the extension model")


def check_result(subject: Subject) -> str:
    """Every request is processed."""
    for request in subject.requests:
        try:
            work = subject.work(request, subject.typed(request))
            check_items(subject.capabilities, [one.modality for one in work.media])
            output = subject.process(work)
        except Rejected as error:
            message = (
                f"{request.name}: it refuses the request ({error.code}: {error}); give the suite media that it takes"
            )
            raise Fault(message) from error
        except Exception as error:
            raise Fault(f"{request.name}: it raises {outcome_of(error)}") from error
        if not isinstance(output, Output):
            raise Fault(f"{request.name}: process returns {type(output).__name__}, not an Output")
        subject.outputs.append(output)
        subject.note(work, output)
    return f"{len(subject.requests)} requests"


def check_ids(subject: Subject) -> str:
    """``input_ids`` is ``int64 [n]``."""
    for output in subject.outputs:
        ids = output.input_ids
        if ids.ndim != 1 or ids.dtype != np.int64:
            raise Fault(f"input_ids must be int64 [n], got {ids.dtype} {list(ids.shape)}")
    return f"{sum(one.input_ids.size for one in subject.outputs)} ids"


def check_dtypes(subject: Subject) -> str:
    """The element type that is told is the one that the bytes have."""

    def check(feature: Feature, name: str) -> None:
        if not isinstance(feature.dtype, DType):
            raise Fault(f"{name}: unknown dtype {feature.dtype!r}")
        if feature.array.dtype != feature.dtype.carrier:
            told = f"dtype {feature.dtype} is carried as {feature.dtype.carrier}"
            raise Fault(f"{name}: {told}, but the array is {feature.array.dtype}")

    return ", ".join(sorted({str(one.dtype) for one in _each_feature(subject, check)}))


def check_values(subject: Subject) -> str:
    """Every value is finite."""

    def check(feature: Feature, name: str) -> None:
        array, dtype = feature.array, feature.dtype
        bits = _BF16_EXPONENT
        wrong = (array & bits) == bits if dtype is DType.BFLOAT16 else ~np.isfinite(array)
        if wrong.any():
            raise Fault(f"{name}: {int(wrong.sum())} of {array.size} values are NaN or infinite")

    return f"{sum(one.array.size for one in _each_feature(subject, check))} values"


def check_shapes(subject: Subject) -> str:
    """Shape, data and rows a token agree; attributes can be carried."""
    for output in subject.outputs:
        for number, item in enumerate(output.items):
            try:
                validate_processed(item, f"item {number}", rows_per_token=subject.capabilities.rows_per_token)
            except Failed as error:
                raise Fault(_said(error)) from error
    return ", ".join(str(list(item.feature.shape)) for output in subject.outputs for item in output.items)


def check_spans(subject: Subject) -> str:
    """Spans lie in the prompt, add up to the item's tokens, and hold no word of the caller's."""
    for output in subject.outputs:
        try:
            validate_layout(output)
        except Failed as error:
            raise Fault(_said(error)) from error
    subject.snapshots.extend(map(Snapshot.of, subject.outputs))  # here they are known to be whole
    for request, output in zip(subject.requests, subject.outputs, strict=True):
        _check_words(subject, request, output)
    return f"{sum(len(item.spans) for output in subject.outputs for item in output.items)} spans"


def _check_words(subject: Subject, request: Request, output: Output) -> None:
    """Ask again with other words around: tokens that have changed with them are not the item's."""
    ids = request.prompt.ids
    if not ids or not request.media:
        return
    taken = set(subject.capabilities.placeholders.values())
    others = iter(prompt_for(subject.capabilities, request.media[0].whole.modality, 0, first=len(ids) + 1) * len(ids))
    changed = tuple(one if one in taken else next(others) for one in ids)
    again = Request(request.name, request.media, Prompt(ids=changed), request.extensions)
    try:
        other = subject.process(subject.work(again, subject.typed(again)))
    except Rejected:  # a family whose words have a meaning
        return
    for number, (one, two) in enumerate(zip(output.items, other.items, strict=True)):
        before, after = _tokens(one, output), _tokens(two, other)
        if not np.array_equal(before, after):
            raise Fault(
                f"item {number}: its spans hold a token of the words around it: {before.tolist()[:8]}, "
                f"and {after.tolist()[:8]} when other words are around it"
            )


def _tokens(item: Item, output: Output) -> np.ndarray:
    return np.concatenate([output.input_ids[span.first : span.last + 1] for span in item.spans])


def _each_feature(subject: Subject, check: Callable[[Feature, str], None]) -> list[Feature]:
    features = []
    for output in subject.outputs:
        for number, item in enumerate(output.items):
            check(item.feature, f"item {number}")
            features.append(item.feature)
    if not features:
        raise NotRun("no request has an item")
    return features


def _said(error: Failed) -> str:
    return error.message.removeprefix("the processor returned an invalid result: ")
