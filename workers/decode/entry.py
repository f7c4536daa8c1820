"""Where in a video a decoder may begin and everything from there on comes out as if it had decoded what was before.

A container's own flags are not asked: they may lie, and name places after which frames still depend on earlier ones.
The packets tell: an IDR of H.264, an IRAP of HEVC (for frames shown after it), a shown key frame of VP8, VP9 and AV1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_IDR = 5
_IRAP = range(16, 22)
_H264_SETS, _HEVC_SETS = range(7, 9), range(32, 35)
_TEMPORAL_DELIMITER, _SEQUENCE_HEADER, _FRAME_HEADER, _FRAME = 2, 1, 3, 6

Test = Callable[[memoryview], bool]


class NotSoundError(Exception):
    """A stream about which nothing can be told from its packets."""


def entry_test(codec: str, extradata: bytes) -> Test | None:
    """What tells whether a packet is such a place, packet by packet; ``None`` for codecs of which none is known.

    It raises ``NotSoundError`` when no place of the stream can be trusted.
    """
    if codec == "h264" and extradata[:1] == b"\x01" and len(extradata) > 4:
        return _Units(extradata[4] & 3, _H264_SETS, range(_IDR, _IDR + 1), lambda head: head & 0x1F)
    if codec == "hevc" and extradata[:1] == b"\x01" and len(extradata) > 21:
        return _Units(extradata[21] & 3, _HEVC_SETS, _IRAP, lambda head: head >> 1 & 0x3F)
    return {"vp8": _is_vp8_key, "vp9": _is_vp9_key, "av1": _is_av1_key, "libdav1d": _is_av1_key}.get(codec)


class _Units:
    """H.264 and HEVC as MP4 and Matroska keep them: units, each behind its length.

    Parameter sets may stand among them and hold from there on. Whoever begins later must have got the same ones: so
    they stand in every place to begin at, each time alike, or nowhere.
    """

    def __init__(self, length_size: int, sets: range, entries: range, kind: Callable[[int], int]) -> None:
        self._size, self._sets, self._entries, self._kind = length_size + 1, sets, entries, kind
        self._known: tuple[bytes, ...] | None = None

    def __call__(self, data: memoryview) -> bool:
        found, is_entry = [], False
        for unit in self._units(data):
            kind = self._kind(unit[0])
            if kind in self._sets:
                found.append(bytes(unit))
            is_entry |= kind in self._entries
        if not is_entry:
            if found:
                raise NotSoundError
            return False
        if self._known is None:
            self._known = tuple(found)
        if self._known != tuple(found):
            raise NotSoundError
        return True

    def _units(self, data: memoryview) -> Iterator[memoryview]:
        at = 0
        while at + self._size < len(data):
            end = at + self._size + int.from_bytes(data[at : at + self._size], "big")
            unit = data[at + self._size : end]
            if not unit or end > len(data):
                raise NotSoundError
            yield unit
            at = end


def _is_vp8_key(data: memoryview) -> bool:
    """RFC 6386, 9.1: the first bit says that it is none, the fifth that it is shown."""
    return data[0] & 0x11 == 0x10


def _is_vp9_key(data: memoryview) -> bool:
    """By the first byte of its header: marker, profile, then whether it repeats a frame, is no key, and is shown."""
    head = data[0]
    if head & 0xC0 != 0x80 or head & 0x30 == 0x30:
        raise NotSoundError
    is_shown = bool(head & 0x0A)
    if not is_shown and data[-1] & 0xE0 != 0xC0:  # alone in its packet, and not with the one that shows it
        raise NotSoundError
    return head & 0x0E == 0x02


def _is_av1_key(data: memoryview) -> bool:
    """By its first frame's header, with the sequence's before it; between them may be metadata."""
    has_sequence, at = False, 0
    while at < len(data):
        head = data[at]
        kind, has_extension, has_size = head >> 3 & 0x0F, head & 0x04, head & 0x02
        at += 2 if has_extension else 1
        size, at = _leb128(data, at) if has_size else (len(data) - at, at)
        if kind in (_FRAME_HEADER, _FRAME):
            return has_sequence and at < len(data) and data[at] & 0xF0 == 0x10
        has_sequence |= kind == _SEQUENCE_HEADER
        at += size
    return False


def _leb128(data: memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for number in range(8):
        if at >= len(data):
            raise NotSoundError
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * number)
        if not byte & 0x80:
            return value, at
    raise NotSoundError
