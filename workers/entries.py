"""What the cache knows an item by, and what lies beside its feature.

The key is of everything that changes the feature and of nothing else: neither the prompt nor the caller's own hashes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from forebay.features import Feature, Modality, Processed
from forebay.plugins import LoadedProcessor
from forebay.processor import TypedExtensions
from forebay.task import MediaRef
from forebay.ticket import ArrayAt
from handoff.note import VERSION, Note
from handoff.pool import Block
from workers.decode import DECODERS_VERSION


@dataclass(frozen=True, slots=True)
class Prepared:
    """An item whose feature lies in the pool: made for this request, or found."""

    modality: Modality
    digest: str
    hash: int
    processed: Processed
    is_cached: bool


def key_of(
    ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions, tenant: str, *, video_salvage: bool = False
) -> bytes:
    """The key of an item: 32 bytes.

    Defaults of the extension map that are spelled out give the same key as those left out. The fingerprint covers the
    processor's package, version, settings and feature dtype. What was salvaged serves none who wants whole videos.
    """
    capabilities = loaded.capabilities
    fields = None if capabilities.item_fields is None else set(capabilities.item_fields)
    typed = {} if extensions is None else extensions.model_dump(mode="json", include=fields)
    options: dict[str, Any] = {"decoders": DECODERS_VERSION, "rate": capabilities.audio_rate_hz, "note": VERSION}
    if video_salvage and ref.modality is Modality.VIDEO:
        options["salvage"] = True
    parts = (tenant, ref.modality, ref.digest, loaded.fingerprint, _canonical(options), _canonical(typed))
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def _canonical(value: dict[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def note_of(item: Prepared, at: ArrayAt) -> Note:
    """What lies beside the item's feature, which lies ``at``."""
    feature, processed = item.processed.feature, item.processed
    return Note(
        modality=item.modality,
        digest=item.digest,
        hash=item.hash,
        start=at.start,
        dtype=feature.dtype,
        shape=feature.shape,
        normalisation=feature.normalisation,
        tokens=processed.tokens,
        model_specific=processed.model_specific,
    )


def read_entry(block: Block, packed: bytes) -> Prepared:
    """An item from its block and its note; the feature is a read-only view."""
    note = Note.unpack(packed)
    array = block.array(ArrayAt(0, note.start, note.dtype, note.shape))
    feature = Feature(array, note.dtype, note.shape, note.normalisation)
    processed = Processed(feature, note.tokens, note.model_specific)
    return Prepared(note.modality, note.digest, note.hash, processed, is_cached=True)
