"""A request that is to be prepared a second time: what it asked for, and what the first processor made of it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from forebay.dtypes import DType
from forebay.features import Feature, Item, Modality, Normalisation, Output, Positions, Span
from forebay.task import TaskBody, seal, unseal

VERSION = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """One such request, without its features: they lie in the media store, under ``digest``.

    Attributes:
        fingerprint: of the first processor.
        cpu_ms: that it took; 0 where it found what it had made before.
    """

    rid: str
    fingerprint: str
    cpu_ms: float
    digest: str
    body: TaskBody

    def pack(self, secret: bytes) -> bytes:
        """Signed like a task."""
        head = [VERSION, self.rid, self.fingerprint, self.cpu_ms, self.digest, self.body.pack()]
        return seal(bytes(msgpack.packb(head)), secret)

    @classmethod
    def unpack(cls, sealed: bytes, secret: bytes) -> Sample:
        """Read what ``pack`` wrote.

        Raises:
            BadTaskError: it is not ours, or of another release.
            ValueError: another version.
        """
        version, *fields = msgpack.unpackb(unseal(sealed, secret))
        if version != VERSION:
            raise ValueError(f"sample version {version}; this release reads {VERSION}")
        rid, fingerprint, cpu_ms, digest, body = fields
        return cls(rid, fingerprint, cpu_ms, digest, TaskBody.unpack(body))


def size_of(output: Output) -> int:
    """Bytes of everything that ``pack_output`` copies."""
    positions = 0 if output.positions is None else output.positions.mrope.nbytes
    return output.input_ids.nbytes + positions + sum(item.feature.size_bytes for item in output.items)


def pack_output(output: Output) -> bytes:
    """A copy of an output: its arrays may lie in the pool, and go with its request. No two copies have one digest."""
    positions = output.positions
    told = None if positions is None else [positions.mrope.tobytes(), positions.delta]
    items = [_packed(item) for item in output.items]
    return bytes(msgpack.packb([VERSION, secrets.token_bytes(16), output.input_ids.tobytes(), items, told]))


def _packed(item: Item) -> list[Any]:
    feature, norm = item.feature, item.feature.normalisation
    told = None if norm is None else [list(norm.mean), list(norm.std), norm.copies]
    spans = [[span.first, span.last] for span in item.spans]
    data = np.ascontiguousarray(feature.array).tobytes()
    what = [str(feature.dtype), list(feature.shape), data, told]
    return [str(item.modality), what, spans, item.tokens, item.hash, item.digest, dict(item.model_specific)]


def unpack_output(data: bytes) -> Output:
    """Read what ``pack_output`` wrote.

    Raises:
        ValueError: another version, or no output.
    """
    version, *fields = msgpack.unpackb(data)
    if version != VERSION:
        raise ValueError(f"output version {version}; this release reads {VERSION}")
    _, ids, items, told = fields
    positions = None if told is None else Positions(np.frombuffer(told[0], "<i8").reshape(3, -1), told[1])
    return Output(np.frombuffer(ids, "<i8"), tuple(_item(one) for one in items), positions)


def _item(fields: Sequence[Any]) -> Item:
    modality, (name, shape, data, told), spans, tokens, item_hash, digest, specific = fields
    dtype = DType(name)
    array = np.frombuffer(data, dtype.carrier).reshape(shape)
    norm = None if told is None else Normalisation(tuple(told[0]), tuple(told[1]), told[2])
    feature = Feature(array, dtype, tuple(shape), norm)
    placed = tuple(Span(first, last) for first, last in spans)
    return Item(Modality(modality), feature, placed, tokens, item_hash, digest, specific)
