"""The ticket: what a worker parks for a scheduler. It names the block of features and says what lies where.

Token ids and positions lie in the block too, beside the features; a request without media has no block, and its
ids travel in the ticket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from forebay.dtypes import DType
from forebay.features import Attribute, Modality, Normalisation, Span

VERSION = 2


@dataclass(frozen=True, slots=True)
class Handle:
    """A block of a node's feature pool. A generation that is no longer the block's is an error, never other data."""

    pool: str
    slot: int
    offset: int
    length: int
    generation: int


@dataclass(frozen=True, slots=True)
class ArrayAt:
    """An array inside a block: bytes from its start, element type and shape."""

    block: int
    start: int
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TicketItem:
    """One media item of a parked request."""

    modality: Modality
    hash: int
    digest: str | None
    spans: tuple[Span, ...]
    tokens: int
    feature: ArrayAt
    model_specific: Mapping[str, Attribute] = field(default_factory=dict)
    normalisation: Normalisation | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """A request whose features are ready.

    Attributes:
        ids: the expanded prompt inside a block, or its raw little-endian int64 bytes.
        mrope: ``int64 [3, n]`` inside a block, where the model has such positions.
        samples: how many answers the caller wants; all of them read the same features.
    """

    rid: str
    attempt: int
    model: str
    blocks: tuple[Handle, ...]
    ids: ArrayAt | bytes
    items: tuple[TicketItem, ...] = ()
    mrope: ArrayAt | None = None
    mrope_delta: int = 0
    sampling: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 1

    @property
    def prompt_tokens(self) -> int:
        return len(self.ids) // 8 if isinstance(self.ids, bytes) else self.ids.shape[0]

    @property
    def tokens(self) -> int:
        """Prompt tokens that an engine must have room for, over all samples."""
        return self.samples * self.prompt_tokens

    def pack(self) -> bytes:
        fields = [
            VERSION,
            [self.rid, self.attempt, self.model],
            [[h.pool, h.slot, h.offset, h.length, h.generation] for h in self.blocks],
            self.ids if isinstance(self.ids, bytes) else _pack_array(self.ids),
            [_pack_item(item) for item in self.items],
            None if self.mrope is None else _pack_array(self.mrope),
            self.mrope_delta,
            dict(self.sampling),
            self.samples,
        ]
        return bytes(msgpack.packb(fields))

    @classmethod
    def unpack(cls, data: bytes) -> Ticket:
        """Read what ``pack`` wrote.

        Raises:
            ValueError: another version, or not a ticket.
        """
        version, *fields = msgpack.unpackb(data)
        if version != VERSION:
            raise ValueError(f"ticket version {version}; this release reads {VERSION}")
        (rid, attempt, model), blocks, ids, items, mrope, delta, sampling, samples = fields
        return cls(
            rid=rid,
            attempt=attempt,
            model=model,
            blocks=tuple(Handle(*block) for block in blocks),
            ids=ids if isinstance(ids, bytes) else _unpack_array(ids),
            items=tuple(_unpack_item(item) for item in items),
            mrope=None if mrope is None else _unpack_array(mrope),
            mrope_delta=delta,
            sampling=sampling,
            samples=samples,
        )


def _pack_array(at: ArrayAt) -> list[Any]:
    return [at.block, at.start, at.dtype, list(at.shape)]


def _unpack_array(data: list[Any]) -> ArrayAt:
    block, start, dtype, shape = data
    return ArrayAt(block, start, DType(dtype), tuple(shape))


def _pack_item(item: TicketItem) -> list[Any]:
    spans = [[span.first, span.last] for span in item.spans]
    head = [item.modality, item.hash, item.digest, spans, item.tokens]
    normalisation = None if item.normalisation is None else _pack_normalisation(item.normalisation)
    return [*head, _pack_array(item.feature), dict(item.model_specific), normalisation]


def _unpack_item(data: list[Any]) -> TicketItem:
    modality, digest_hash, digest, spans, tokens, feature, specific, normalisation = data
    return TicketItem(
        modality=Modality(modality),
        hash=digest_hash,
        digest=digest,
        spans=tuple(Span(first, last) for first, last in spans),
        tokens=tokens,
        feature=_unpack_array(feature),
        model_specific=specific,
        normalisation=None if normalisation is None else _unpack_normalisation(normalisation),
    )


def _pack_normalisation(normalisation: Normalisation) -> list[Any]:
    return [list(normalisation.mean), list(normalisation.std), normalisation.copies]


def _unpack_normalisation(data: list[Any]) -> Normalisation:
    mean, std, copies = data
    return Normalisation(tuple(mean), tuple(std), copies)
