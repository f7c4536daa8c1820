"""The features of a request, described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PreparedItem:
    """One item's feature.

    Attributes:
        spans: first and last place in the expanded prompt, both inclusive.
        hash: sixteen hexadecimal digits, the item's identity for an engine's own cache.
        digest: of the media, ``sha256:…``.
        is_cached: the feature was found, not made.
        sha256: of the feature's bytes; ``None`` when nothing but its shape was asked for.
        base64: the feature's bytes, when they were asked for.
        data: what the model's engine gets beside the feature.
        raw: the API's own words.
    """

    modality: str
    spans: tuple[tuple[int, int], ...]
    hash: str
    digest: str
    is_cached: bool
    dtype: str
    shape: tuple[int, ...]
    sha256: str | None
    base64: str | None
    data: Mapping[str, Any]
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> PreparedItem:
        feature = told["feature"]
        return cls(
            modality=told["modality"],
            spans=tuple((first, last) for first, last in told["offsets"]),
            hash=told["hash"],
            digest=told["digest"],
            is_cached=told["cached"],
            dtype=feature["dtype"],
            shape=tuple(feature["shape"]),
            sha256=feature.get("sha256"),
            base64=feature.get("base64"),
            data=told["model_specific_data"],
            raw=told,
        )


@dataclass(frozen=True, slots=True)
class Preparation:
    """What ``preprocess`` made of a request.

    Attributes:
        input_ids: the prompt, expanded.
        mrope: positions and delta, of a model that has them.
        timings_ms: the worker's stages, and the total.
        raw: the API's own words.
    """

    rid: str
    model: str
    processor: str
    fingerprint: str
    node: str
    input_ids: tuple[int, ...]
    items: tuple[PreparedItem, ...]
    mrope: Mapping[str, Any] | None
    timings_ms: Mapping[str, float]
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Preparation:
        return cls(
            rid=told["rid"],
            model=told["model"],
            processor=told["processor"]["name"],
            fingerprint=told["processor"]["fingerprint"],
            node=told["node"],
            input_ids=tuple(told["input_ids"]),
            items=tuple(PreparedItem.of(one) for one in told["items"]),
            mrope=told["mrope"],
            timings_ms=told["timings_ms"],
            raw=told,
        )
