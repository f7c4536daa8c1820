"""How HTTP is read from a connection: uvicorn's way, with a bound for what comes before a body.

Neither uvicorn nor its parser has one, and nobody's key is known before all of a head is there.
"""

from __future__ import annotations

import json
import secrets

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forebay.errors import Problem

LAST_WORD_S = 1.0  # what is on its way comes within that
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

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the shape of every other error; no route and no middleware ever sees it."""
        body = json.dumps(Problem("invalid_http", msg, 400).body(None)).encode()
        head = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            "x-request-id": secrets.token_hex(16),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.transport.write(f"HTTP/1.1 400 Bad Request\r\n{lines}\r\n".encode() + body)
        self.transport.close()


class LastWord(BoundedHead):
    """Lets a connection that has just come ask its one question, though the server stops: it cannot know that yet."""

    _is_last = False
    _has_asked = False

    def shutdown(self) -> None:
        """Called by the server when it stops."""
        if self._has_asked or self.transport.is_closing():
            super().shutdown()
            return
        self._is_last = True
        self.loop.call_later(LAST_WORD_S, self._close_if_silent)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._has_asked = True
        if self._is_last:
            self.cycle.keep_alive = False

    def _close_if_silent(self) -> None:
        if not self._has_asked and not self.transport.is_closing():
            self.transport.close()
