"""The note beside a cached feature: all that is needed to use it without the request that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgpack

from forebay.dtypes import DType
from forebay.features import Attribute, Modality, Normalisation

VERSION = 1
"""Part of every cache key, so that no release reads the notes of another."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a feature is, and where in its block it begins."""

    modality: Modality
    digest: str
    hash: int
    start: int
    dtype: DType
    shape: tuple[int, ...]
    normalisation: Normalisation | None
    tokens: int
    model_specific: Mapping[str, Attribute] = field(default_factory=dict)

    def pack(self) -> bytes:
        one = self.normalisation
        constants = None if one is None else [one.mean, one.std, one.copies]
        fields = [self.modality, self.digest, self.hash, self.start, self.dtype, self.shape, constants, self.tokens]
        return bytes(msgpack.packb([*fields, dict(self.model_specific)]))

    @classmethod
    def unpack(cls, data: bytes) -> Note:
        """Read what ``pack`` wrote."""
        modality, digest, hash_, start, dtype, shape, constants, tokens, specific = msgpack.unpackb(data)
        normalisation = None
        if constants is not None:
            mean, std, copies = constants
            normalisation = Normalisation(tuple(mean), tuple(std), copies)
        kind, element = Modality(modality), DType(dtype)
        return cls(kind, digest, hash_, start, element, tuple(shape), normalisation, tokens, specific)
