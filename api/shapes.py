"""Media fields in every shape that callers send them: one item, a list, a list of lists; for one prompt or a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.incoming import Source
from api.limits import Limits
from api.ready_made import is_ready_made, read_ready_made
from api.reels import is_reel, read_reel
from api.schema import json_type
from forebay.errors import Rejected
from forebay.features import Modality

_DEEPEST = 4  # an item, its list of frames, a frame, its URL
Column = Sequence[Sequence[tuple[Any, str]]]
"""For each prompt its items as they came, each with its place in the body."""


def of_single(value: Any, name: str) -> list[tuple[Any, str]]:
    """The items of a request that is no batch: one, or a flat list of them, in which nulls are dropped.

    Raises:
        Rejected: a list within the list.
    """
    if not isinstance(value, list):
        return [] if value is None else [(value, name)]
    for number, one in enumerate(value):
        if isinstance(one, list):
            path = f"{name}[{number}]"
            message = f"{path}: a nested list is the batch form; a single request takes one item or a flat list"
            raise Rejected("invalid_media", message, param=path)
    return _rows(value, name)


def of_batch(value: Any, name: str, prompts: int, limits: Limits) -> Column:
    """The items of each prompt of a batch.

    Raises:
        Rejected: a list of another length than the batch, one that mixes items and lists, or one item that would
            become too much when every prompt gets it.
    """
    if value is None or value == []:
        return [[] for _ in range(prompts)]
    if not isinstance(value, list):
        _check_broadcast(value, name, prompts, limits)
        return [[(value, name)] for _ in range(prompts)]
    if len(value) != prompts:
        message = f"{name}: list length {len(value)} does not match batch size {prompts}"
        raise Rejected("length_mismatch", message, param=name)
    _check_not_mixed(value, name)
    return [_entry(one, f"{name}[{number}]") for number, one in enumerate(value)]


def _entry(value: Any, path: str) -> list[tuple[Any, str]]:
    if isinstance(value, list):
        return _rows(value, path)
    return [] if value is None else [(value, path)]


def _rows(values: Sequence[Any], path: str) -> list[tuple[Any, str]]:
    return [(one, f"{path}[{number}]") for number, one in enumerate(values) if one is not None]


def _check_not_mixed(values: Sequence[Any], name: str) -> None:
    kinds = {isinstance(one, list) for one in values if one is not None}
    if len(kinds) > 1:
        message = f"{name}: a nested list cannot mix bare items with lists of items"
        raise Rejected("invalid_media", message, param=name)


def _check_broadcast(value: Any, name: str, prompts: int, limits: Limits) -> None:
    size = _characters(value)
    if size * prompts > limits.broadcast_bytes:
        message = (
            f"{name}: one item of {size} bytes for {prompts} prompts makes {size * prompts} bytes; "
            f"the limit is {limits.broadcast_bytes}"
        )
        raise Rejected("broadcast_too_large", message, param=name, status=413)


def _characters(value: Any, depth: int = _DEEPEST) -> int:
    """Of what a value says. What is nested deeper than any item is none, and is told so when its turn comes."""
    if isinstance(value, str):
        return len(value)
    if not depth:
        return 0
    inner = [value.get(key) for key in ("url", "frames", "feature", "data")] if isinstance(value, dict) else value
    return sum(_characters(one, depth - 1) for one in inner) if isinstance(inner, list) else 0


def sources(items: Sequence[tuple[Any, str]], modality: Modality) -> list[Source]:
    """The items of one request, each a string, a list of frames, or a feature.

    Raises:
        Rejected: an item that is none, by its place.
    """
    return [_source(value, param, modality) for value, param in items]


def _source(value: Any, param: str, modality: Modality) -> Source:
    if is_reel(value, modality):
        return read_reel(value, param)
    if is_ready_made(value, param):
        return read_ready_made(value, modality, param)
    return Source(modality, _text(value, param), param)


def _text(value: Any, param: str) -> str:
    if isinstance(value, dict):
        value = value.get("url") or ""
        if not isinstance(value, str) or not value:
            raise Rejected("invalid_media", f"{param}: a media object needs a non-empty 'url'", param=param)
    if not isinstance(value, str):
        message = f"{param} must be a string or an object with 'url', not {json_type(value)}"
        raise Rejected("invalid_media", message, param=param)
    return value
