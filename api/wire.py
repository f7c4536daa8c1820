"""How HTTP is read from a connection: uvicorn's way, with a bound for what comes before a body.

Neither uvicorn nor its parser has one, and nobody's key is known before all of a head is there.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 << 10  # a key, an id and a long path are a few hundred


class BoundedHead(HttpToolsProtocol):
    """Closes a connection whose request line and headers are longer. One reading more than the bound may be held."""

    _is_in_head = False
    _heads = 0
    _head_bytes = 0

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        self._heads += 1
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_in_head:
            return  # a trailer, which nobody here reads
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        heads = self._heads
        super().data_received(data)
        if not self._is_in_head or self._heads != heads or self.transport.is_closing():
            return  # of a reading in which a head begins it is unknown how much belongs to the message before
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self.send_400_response(f"The head of a request may have {MOST_HEAD_BYTES} bytes.")
