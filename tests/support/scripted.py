"""A real HTTP server on loopback that answers as a test has written down, and remembers what it was asked."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Says:
    """One answer. ``parts`` are sent as chunks; ``breaks`` closes the connection instead of going on.
    ``after_s`` is how long it takes."""

    told: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: Sequence[str] | None = None
    breaks: bool = False
    after_s: float = 0


BREAKS = Says(breaks=True)


def refuses(status: int, code: str, **headers: str) -> Says:
    """An error as the API tells it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"type": "server_error", "code": code, "message": "a sentence", "param": None, "rid": "r"}
    return Says({"error": error}, status, named)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request that came."""

    line: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Scripted:
    """The script: what each request line is answered with, one answer after another; the last one stays."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self._script: dict[str, list[Says]] = {}

    def on(self, line: str, *answers: Says) -> None:
        self._script[line] = list(answers)

    @property
    def lines(self) -> list[str]:
        return [one.line for one in self.asked]

    def answer(self, asked: Asked) -> Says:
        self.asked.append(asked)
        answers = self._script.get(asked.line) or [refuses(404, "request_not_found")]
        return answers.pop(0) if len(answers) > 1 else answers[0]


def _handler(script: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            line = f"{self.command} {unquote(url.path)}"
            says = script.answer(Asked(line, query, {k.lower(): v for k, v in self.headers.items()}, body))
            time.sleep(says.after_s)
            if says.parts is not None:
                self._stream(says)
            elif says.breaks:
                self._break()
            else:
                self._whole(says)

        def _whole(self, says: Says) -> None:
            content = b"" if says.told is None else json.dumps(says.told).encode()
            content = says.told.encode() if isinstance(says.told, str) else content
            self.send_response(says.status)
            for name, value in says.headers.items():
                self.send_header(name, value)
            if says.status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _stream(self, says: Says) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in says.parts or ():
                data = part.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            if says.breaks:
                self._break()
            else:
                self.wfile.write(b"0\r\n\r\n")

        def _break(self) -> None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        do_GET = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # a caller that has left is what some tests are about
            super().handle_error(request, client_address)


@contextmanager
def scripted() -> Iterator[Scripted]:
    """A server for the time of the block."""
    script = Scripted("")
    server = _Server(("127.0.0.1", 0), _handler(script))
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def native(text: str, rid: str = "r") -> dict[str, Any]:
    """An answer of ``/generate``."""
    meta = {
        "id": rid,
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "finish_reason": {"type": "stop"},
        "e2e_latency": 0.1,
    }
    return {"text": text, "meta_info": meta}


def chat(text: str, rid: str = "r") -> dict[str, Any]:
    """An answer of ``/v1/chat/completions``."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"id": rid, "choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}


def status(rid: str, state: str, text: str | None = None, error: Any = None) -> dict[str, Any]:
    """An answer of ``GET /v1/requests/{rid}``."""
    told = {"rid": rid, "state": state, "model": "m", "attempt": 1, "node": None, "deadline_ms": 9, "times_ms": {}}
    result = None if text is None else native(text, rid)
    return {**told, "worker_ms": {}, "position": None, "error": error, "result": result}
