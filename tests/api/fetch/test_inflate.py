"""Coded contents: decoded to the end of their stream and not beyond, in bounded memory, whatever is sent."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterable

import pytest

from api.fetch.body import read_body
from api.fetch.budget import Budget
from api.fetch.inflate import Inflater, coding_of
from api.fetch.trouble import Trouble
from forebay.errors import Rejected

CONTENT = b"".join(number.to_bytes(4, "big") for number in range(20_000))
LIMIT = 1_000_000


def bare(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


def read(coding: str, *chunks: bytes) -> bytes:
    inflater = Inflater(coding)
    return b"".join([*(piece for chunk in chunks for piece in inflater.feed(chunk)), *inflater.end()])


async def fetched(encoding: str, chunks: Iterable[bytes], announced: int | None = None) -> tuple[bytes | None, Budget]:
    """What comes of a body, and what is charged for it."""
    budget = Budget(2 * LIMIT, LIMIT)

    async def come() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return await read_body(come(), encoding, announced, budget, "image_data"), budget


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize(
    ("coding", "coded"),
    [
        ("gzip", gzip.compress(CONTENT, mtime=0)),
        (
            "gzip",
            gzip.compress(CONTENT[:1000], mtime=0)
            + gzip.compress(b"", mtime=0)
            + gzip.compress(CONTENT[1000:], mtime=0),
        ),
        ("deflate", zlib.compress(CONTENT)),
        ("deflate", bare(CONTENT)),
        ("deflate", zlib.compress(CONTENT, 0)),
        ("deflate", bare(bytes(len(CONTENT)))),
    ],
)
def test_a_content_is_decoded_however_it_is_cut(coding, coded, size):
    """gzip of several members is one content (RFC 1952, 2.2); deflate comes with its header and without."""
    chunks = [coded[start : start + size] for start in range(0, len(coded), size)]

    assert read(coding, *chunks) in (CONTENT, bytes(len(CONTENT)))


@pytest.mark.parametrize("cut", [0, 1, 10, -1, -9])
@pytest.mark.parametrize(
    ("coding", "coded"),
    [("gzip", gzip.compress(CONTENT, mtime=0)), ("deflate", zlib.compress(CONTENT)), ("deflate", bare(CONTENT))],
)
def test_a_content_that_ends_too_early_is_trouble_that_may_pass(coding, coded, cut):
    """Never half a picture."""
    with pytest.raises(Trouble, match="ends too early") as caught:
        read(coding, coded[:cut])

    assert caught.value.is_passing


@pytest.mark.parametrize("after", [b"\0", b"\n", b"\x1f\x8c" * 20, b"x" * 100_000, gzip.compress(b"x", mtime=0)[:5]])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("coding", "coded"),
    [("gzip", gzip.compress(CONTENT, mtime=0)), ("deflate", zlib.compress(CONTENT)), ("deflate", bare(CONTENT))],
)
def test_what_follows_the_end_is_damage(coding, coded, after, apart):
    """However it comes, and were it a single byte: what was meant nobody knows."""
    with pytest.raises(Trouble, match=r"damaged|goes on after|ends too early"):
        read(coding, *([coded, after] if apart else [coded + after]))


async def test_a_stream_without_end_behind_the_content_is_neither_kept_nor_read():
    """Gigabytes behind the end of a content of ten bytes: the second chunk of them is not asked for."""
    asked = []

    def chunks() -> Iterable[bytes]:
        yield gzip.compress(b"x" * 10)
        for number in range(100_000):
            asked.append(number)
            yield bytes(65536)

    with pytest.raises(Trouble):
        await fetched("gzip", chunks())
    assert asked == [0]


@pytest.mark.parametrize(
    ("encoding", "first", "block"),
    [
        ("gzip", gzip.compress(b"", mtime=0)[:10], b"\0\0\0\xff\xff" * 10_000),
        ("deflate", b"\x78\x9c", b"\0\0\0\xff\xff" * 10_000),
    ],
)
async def test_blocks_of_nothing_are_counted_as_they_come(encoding, first, block):
    """They decode to no byte, for ever: what comes over the wire has the limit, too."""
    with pytest.raises(Rejected, match=f"the limit is {LIMIT}") as caught:
        await fetched(encoding, [first, *[block] * 10_000])

    assert (caught.value.code, caught.value.status) == ("media_too_large", 413)


async def test_members_of_nothing_have_an_end():
    """Each costs a decoder."""
    with pytest.raises(Trouble, match="more than 4096 parts"):
        await fetched("gzip", [gzip.compress(b"", mtime=0) * 1000] * 10)


async def test_a_bomb_takes_no_more_memory_than_the_limit():
    """Nor does one chunk that is large by itself make more than a step of it."""
    bomb = gzip.compress(bytes(100_000_000), 9, mtime=0)
    tracemalloc.start()
    try:
        with pytest.raises(Rejected, match="at least"):
            await fetched("gzip", [bomb])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * LIMIT


async def test_a_content_that_nothing_makes_shorter_may_have_the_whole_limit():
    """Its coding makes it a little longer than it is."""
    noise = zlib.compress(b"", 9) + b"".join(
        zlib.crc32(bytes([n, m])).to_bytes(4, "big") for n in range(250) for m in range(250)
    )
    noise = (noise * 5)[:LIMIT]
    coded = gzip.compress(noise, 0)
    assert len(coded) > LIMIT

    data, budget = await fetched("gzip", [coded], len(coded))

    assert data == noise
    assert budget.taken == LIMIT


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_header_that_says_too_much_is_enough(encoding):
    """Coded or not, nothing is read then."""
    asked = []

    def chunks() -> Iterable[bytes]:
        asked.append(1)
        yield b""

    with pytest.raises(Rejected, match="at least"):
        await fetched(encoding, chunks(), 2 * LIMIT)
    assert asked == []


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", ""),
        ("identity", ""),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        (" deflate ", "deflate"),
        ("identity, gzip", "gzip"),
        (",", ""),
    ],
)
def test_a_coding_is_known_by_its_names(header, coding):
    """In any case; ``identity`` is none."""
    assert coding_of(header) == coding


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("br", "encoded as 'br'"),
        ("zstd", "'zstd'"),
        ("gzip, gzip", "2 times over"),
        ("gzip,br,deflate", "3 times"),
        ("g" * 99, "'gggggggggggggggg',"),
    ],
)
def test_other_codings_are_refused_by_name(header, told):
    """Nobody asked for one, let alone for two, one in the other."""
    with pytest.raises(Trouble, match=told) as caught:
        coding_of(header)

    assert not caught.value.is_passing
