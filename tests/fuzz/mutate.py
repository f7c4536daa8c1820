"""Bytes that were once a file. The same numbers give the same bytes on every machine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from random import Random

_MOST_BYTES = 1 << 18
_PNG = b"\x89PNG\r\n\x1a\n"
_EDGES = (
    0,
    1,
    2,
    7,
    16,
    63,
    64,
    127,
    128,
    255,
    256,
    32_767,
    32_768,
    65_535,
    65_536,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)
_HEAD = 256  # where most of what a decoder believes stands


def mutated(data: bytes, rng: Random, others: Sequence[bytes]) -> bytes:
    """A file with one to eight changes, now and then spliced with another; a PNG's check sums are often put right."""
    changed = bytearray(data)
    for _ in range(min(8, 1 + int(rng.expovariate(0.5)))):
        if changed:
            rng.choice(_CHANGES)(changed, rng)
    if rng.random() < 0.1:
        changed = _spliced(changed, rng, others)
    if changed[:8] == _PNG and rng.random() < 0.8:
        changed = _with_sums(changed)
    return bytes(changed[:_MOST_BYTES])


def _at(data: bytearray, rng: Random) -> int:
    """A place; every second one near the beginning, and some near the end."""
    draw = rng.random()
    if draw < 0.5:
        return rng.randrange(min(len(data), _HEAD))
    return max(0, len(data) - 1 - rng.randrange(_HEAD)) if draw < 0.6 else rng.randrange(len(data))


def _flip(data: bytearray, rng: Random) -> None:
    data[_at(data, rng)] ^= 1 << rng.randrange(8)


def _byte(data: bytearray, rng: Random) -> None:
    data[_at(data, rng)] = rng.randrange(256)


def _number(data: bytearray, rng: Random) -> None:
    """A number of two, four or eight bytes, at an edge of what fits, or one more or less than there was."""
    size = rng.choice((2, 4, 8))
    order = rng.choice(("big", "little"))
    at = _at(data, rng)
    was = int.from_bytes(data[at : at + size], order)
    value = rng.choice(_EDGES) if rng.random() < 0.7 else was + rng.choice((-1, 1))
    new = (value % (1 << 8 * size)).to_bytes(size, order)
    data[at : at + size] = new[: len(data) - at]


def _cut_out(data: bytearray, rng: Random) -> None:
    at = _at(data, rng)
    del data[at : at + 1 + int(rng.expovariate(0.05))]


def _cut_off(data: bytearray, rng: Random) -> None:
    if rng.random() < 0.3:
        del data[_at(data, rng) :]


def _repeat(data: bytearray, rng: Random) -> None:
    at = _at(data, rng)
    data[at:at] = data[at : at + 1 + int(rng.expovariate(0.02))] * rng.choice((1, 1, 2, 50))


def _insert(data: bytearray, rng: Random) -> None:
    at = _at(data, rng)
    data[at:at] = rng.randbytes(1 + int(rng.expovariate(0.2)))


def _blank(data: bytearray, rng: Random) -> None:
    at = _at(data, rng)
    end = min(len(data), at + 1 + int(rng.expovariate(0.05)))
    data[at:end] = bytes([rng.choice((0, 255, rng.randrange(256)))]) * (end - at)


def _move(data: bytearray, rng: Random) -> None:
    start, size = _at(data, rng), 1 + int(rng.expovariate(0.02))
    piece = data[start : start + size]
    del data[start : start + size]
    at = rng.randrange(len(data) + 1)
    data[at:at] = piece


_CHANGES: tuple[Callable[[bytearray, Random], None], ...] = (
    *(_flip, _flip, _byte, _number, _number, _number),
    *(_cut_out, _cut_off, _repeat, _insert, _blank, _move),
)


def _spliced(data: bytearray, rng: Random, others: Sequence[bytes]) -> bytearray:
    other = rng.choice(others)
    return data[: rng.randrange(len(data) + 1)] + bytearray(other[rng.randrange(len(other) + 1) :])


def _with_sums(data: bytearray) -> bytearray:
    """A PNG whose every chunk has the check sum of what is in it now, so that a decoder looks further."""
    at = 8
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        if at + 12 + size > len(data):
            break
        struct.pack_into(">I", data, at + 8 + size, zlib.crc32(data[at + 4 : at + 8 + size]))
        at += 12 + size
    return data
