"""The pages of an Ogg file (RFC 3533): each has a checksum, so that a damaged or missing end is found exactly.

libsndfile gives what stands before such a page, and calls it the whole.
"""

from __future__ import annotations

import zlib

_HEAD = 27  # bytes of a page's header, before the lengths of its parts
_SUM_AT = 22
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def is_whole(data: bytes) -> bool:
    """Whether every page is there, to its last byte, and intact. One that ends with a whole page may have been longer.

    Behind the last page anything may stand that is none: some write a tag there.
    """
    at = 0
    while data[at : at + 4] == b"OggS":
        lengths = data[at + _HEAD : at + _HEAD + data[at + 26]] if at + _HEAD <= len(data) else b""
        end = at + _HEAD + len(lengths) + sum(lengths)
        is_there = at + _HEAD <= len(data) and len(lengths) == data[at + 26] and end <= len(data)
        if not is_there or _checksum(data[at:end]) != int.from_bytes(data[at + _SUM_AT : at + _SUM_AT + 4], "little"):
            return False
        at = end
    return b"OggS" not in data[at:]


def last_position(data: bytes) -> int:
    """The position, in samples of the codec's own clock, at which the last page that can be found says it ends."""
    at, last = data.rfind(b"OggS"), 0
    while at >= 0 and not last:
        position = int.from_bytes(data[at + 6 : at + 14], "little", signed=True)
        last, at = max(position, 0), data.rfind(b"OggS", 0, at)
    return last


def _checksum(page: bytes) -> int:
    """A CRC-32 of polynomial 04c11db7 with neither reflection nor inversion, by way of the one that zlib has."""
    blanked = page[:_SUM_AT] + bytes(4) + page[_SUM_AT + 4 :]
    reflected = zlib.crc32(blanked.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reflected:032b}"[::-1], 2)
