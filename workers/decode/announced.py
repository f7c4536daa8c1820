"""How many samples a file of plain samples says it has: libsndfile corrects the number without a word."""

from __future__ import annotations

from typing import Literal

_UNKNOWN = 0x7FF00000  # from here on a length is what a writer to a pipe puts for one that it does not know
_ANY_LENGTH = b"\xff\xff\xff\xff"


def with_open_end(data: bytes) -> bytes:
    """A WAV written to a pipe says that it holds 0 bytes of samples; they reach to its end."""
    at = _wav_data(data)
    if at is None or int.from_bytes(data[at + 4 : at + 8], "little") or _is_chunk(data[at + 8 :]):
        return data
    return data[: at + 4] + _ANY_LENGTH + data[at + 8 :]


def announced_frames(data: bytes, frames: int) -> int:
    """How many samples a channel a WAV, an AIFF or an AU says it has, of which ``frames`` are there.

    No fewer than these: most other files say nothing that libsndfile would pass over.
    """
    told, there = _sample_bytes(data)
    if told <= there:
        return frames
    if not frames:
        return max(1, told)
    size = there // frames  # 0 for codecs that pack samples
    return max(frames + 1, told // size if size else frames * told // there)


def _sample_bytes(data: bytes) -> tuple[int, int]:
    """Bytes of samples: as many as there should be, and those of them that are there; zeros where it does not say."""
    told = at = 0
    if (found := _wav_data(data)) is not None:
        at, told = found + 8, int.from_bytes(data[found + 4 : found + 8], "little")
    elif data[:4] == b"RF64" and (found := _chunk(data, b"data", "little")) is not None:
        at, told = found + 8, int.from_bytes(data[28:36], "little")  # in its first chunk, "ds64"
    elif data[:4] == b"FORM" and (found := _chunk(data, b"SSND", "big")) is not None:
        at, told = found + 16, int.from_bytes(data[found + 4 : found + 8], "big") - 8
    elif data[:4] == b".snd":
        at, told = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    return (0, 0) if told >= _UNKNOWN else (told, min(told, max(0, len(data) - at)))


def _wav_data(data: bytes) -> int | None:
    """Where a WAV's chunk of samples begins."""
    return _chunk(data, b"data", "little") if data[:4] == b"RIFF" and data[8:12] == b"WAVE" else None


def _chunk(data: bytes, name: bytes, order: Literal["big", "little"]) -> int | None:
    at = 12
    while at + 8 <= len(data):
        if data[at : at + 4] == name:
            return at
        size = int.from_bytes(data[at + 4 : at + 8], order)
        at += 8 + size + size % 2
    return None


def _is_chunk(rest: bytes) -> bool:
    """Whether another chunk of the file follows, and nothing else."""
    return len(rest) >= 8 and 8 + int.from_bytes(rest[4:8], "little") == len(rest)
