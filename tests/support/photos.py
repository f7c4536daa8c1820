"""A server of one picture, on an address of loopback that nothing else is asked at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.77"


@dataclass
class Photos:
    """``asked`` are the paths, each with what was told of a user."""

    port: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def photos(picture: bytes) -> Iterator[Photos]:
    """Has it under every path that begins with ``/photo``."""
    told = Photos()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.asked.append((self.path, self.headers["Authorization"]))
            body = picture if self.path.startswith("/photo") else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing: what it was asked is remembered."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        told.port = server.server_address[1]
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield told
        finally:
            server.shutdown()
            serving.join()
