"""Whether a file ends before its own outermost length says, for containers that do not number their frames."""

from __future__ import annotations

_SEGMENT = b"\x18\x53\x80\x67"
_HEAD = 4096  # within which a Matroska file's segment begins


def is_cut(data: bytes) -> bool:
    """Whether bytes are missing at the end. A length that is not told, as of a live recording, says nothing."""
    if data[:4] == b"RIFF":
        return len(data) < 8 + int.from_bytes(data[4:8], "little")
    if data[:4] == b"\x1aE\xdf\xa3":
        return _segment_is_cut(data)
    if data[:3] == b"GIF":
        return b"\x3b" not in data[-16:]
    return _boxes_are_cut(data)


def _boxes_are_cut(data: bytes) -> bool:
    """Of an MP4: its boxes follow one another, each with its length before it; the last may reach to the end."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if size == 0:
            return False
        if size < 8:
            return True
        at += size
    return at > len(data)


def _segment_is_cut(data: bytes) -> bool:
    at = data.find(_SEGMENT, 0, _HEAD)
    if at < 0 or at + 12 > len(data):
        return True
    first = data[at + 4]
    width = 9 - first.bit_length()  # leading zeros tell how many bytes the length has
    value = int.from_bytes(data[at + 4 : at + 4 + width], "big") & ((1 << 7 * width) - 1)
    is_told = value != (1 << 7 * width) - 1
    return is_told and at + 4 + width + value > len(data)
