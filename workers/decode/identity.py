"""The identity that prefix caches use for an item."""

from __future__ import annotations

from blake3 import blake3


def hash_of(data: bytes) -> int:
    """The first 8 bytes, big-endian, of the BLAKE3 of the encoded media, as the original computes it."""
    return int.from_bytes(blake3(data).digest(8), "big")
