"""A caller as the server sees one: it sends a body, takes in what comes, and may leave at any moment."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI


@dataclass
class Caller:
    """One request to an application, without a connection in between.

    Args:
        app: the application.
        path: where to.
        body: what to send.
        leaves_unheard: whether it is found gone as soon as its answer begins, and not earlier.
        hangs_up: whether nothing can be sent to it, with a server that says so when one tries.
    """

    app: FastAPI
    path: str
    body: dict[str, Any]
    leaves_unheard: bool = False
    hangs_up: bool = False
    sent: list[dict[str, Any]] = field(default_factory=list)
    """What the application sent, message by message."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: int = 0

    async def call(self) -> None:
        """Be served, until the application is done with us."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4" if self.hangs_up else "2.3"},  # uvicorn's is 2.3
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        await self.app(scope, self._receive, self._send)

    def leave(self) -> None:
        """Close the connection."""
        self.left.set()

    async def _receive(self) -> dict[str, Any]:
        self._asked += 1
        if self._asked == 1:
            return {"type": "http.request", "body": json.dumps(self.body).encode(), "more_body": False}
        if not (self.leaves_unheard and self._asked > 2):
            await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self.hangs_up:
            raise BrokenPipeError
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return next((message["status"] for message in self.sent if message["type"] == "http.response.start"), None)

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()
