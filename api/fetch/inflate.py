"""Undoing the coding of a content: a bounded piece at a time, to the end of its stream and not beyond. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from api.fetch.trouble import Trouble

_STEP = 256 << 10  # decoded bytes at a time: what a bomb can put into memory before it is counted
_PIECE = 16 << 10  # coded bytes at a time: zlib copies what it has not used, again and again
_MOST_MEMBERS = 4096  # a member costs more than its twenty bytes; a writer of blocks makes one of every 64 KiB
_GZIP, _ZLIB, _BARE = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, -zlib.MAX_WBITS
_DEFLATED, _LARGEST_WINDOW = 8, 7
_NAMES = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}


def coding_of(header: str) -> str:
    """What a ``Content-Encoding`` says: ``gzip``, ``deflate``, or nothing.

    Raises:
        Trouble: another coding, or more than one: nobody asked for any.
    """
    said = [name for name in (part.strip().lower() for part in header.split(",")) if name not in ("", "identity")]
    if not said:
        return ""
    if len(said) > 1:
        raise Trouble(f"it is encoded {len(said)} times over, which nobody asked for")
    if said[0] not in _NAMES:
        raise Trouble(f"it is encoded as {said[0][:16]!r}, which nobody asked for")
    return _NAMES[said[0]]


class Inflater:
    """Decodes one content. gzip may have several members (RFC 1952); whatever else follows the end is damage."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._members = 0
        self._stream: zlib._Decompress | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """What more of the content decodes to, in pieces.

        Raises:
            Trouble: it is damaged, or goes on after its end.
        """
        try:
            for start in range(0, len(chunk), _PIECE):
                yield from self._inflated(chunk[start : start + _PIECE])
        except zlib.error as error:
            raise Trouble("its compressed content is damaged") from error

    def _inflated(self, rest: bytes) -> Iterator[bytes]:
        while rest:
            if self._stream is None or self._stream.eof:
                self._stream = self._begun(rest)
            yield self._stream.decompress(rest, _STEP)
            rest = self._stream.unconsumed_tail or self._stream.unused_data

    def _begun(self, first: bytes) -> zlib._Decompress:
        self._members += 1
        if self._members > 1 and self._coding != "gzip":
            raise Trouble("its compressed content goes on after its end")
        if self._members > _MOST_MEMBERS:
            raise Trouble(f"its compressed content has more than {_MOST_MEMBERS} parts")
        if self._coding == "gzip":
            return zlib.decompressobj(_GZIP)
        # By the standard there is a header; some servers leave it out, and no bare stream begins like one.
        has_header = first[0] & 15 == _DEFLATED and first[0] >> 4 <= _LARGEST_WINDOW
        return zlib.decompressobj(_ZLIB if has_header else _BARE)

    def end(self) -> Iterator[bytes]:
        """What is left once everything is fed.

        Raises:
            Trouble: the content ends too early.
        """
        while self._stream is not None and not self._stream.eof:
            piece = self._stream.decompress(b"", _STEP)
            if not piece:
                break
            yield piece
        if self._stream is None or not self._stream.eof:
            raise Trouble("its compressed content ends too early", is_passing=True)
