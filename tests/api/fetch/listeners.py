"""Servers on loopback that answer as a test says, byte by byte, and count who comes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


@dataclass
class Listener:
    """``paths`` are what it was asked for; ``connections`` how often somebody dialled it."""

    port: int = 0
    connections: int = 0
    paths: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


def says(*parts: bytes, pause_s: float = 0.0) -> Answer:
    """An answer in pieces, after which the connection is closed."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, __: str) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return answer


def ok(body: bytes, *headers: str) -> Answer:
    """A plain 200."""
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return says("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def status(code: int, *headers: str) -> Answer:
    """An answer without a body."""
    lines = [f"HTTP/1.1 {code} Said", "Content-Length: 0", *headers]
    return says("\r\n".join(lines).encode() + b"\r\n\r\n")


class Crowd:
    """An answer that has begun its body, and does not go on before it may."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.here = self.most = 0
        self._may = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        self.here += 1
        self.most = max(self.most, self.here)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(self.body)}\r\n\r\n".encode() + self.body[:9])
        await self._may.wait()
        writer.write(self.body[9:])
        await writer.drain()

    async def grown_to(self, size: int) -> None:
        async with asyncio.timeout(5):
            while self.here < size:  # noqa: ASYNC110 - it is on the other side
                await asyncio.sleep(0.005)

    def leave(self) -> None:
        """Let those go on that are here; the next ones wait again."""
        self.here = 0
        self._may.set()
        self._may = asyncio.Event()


def tunnel(port: int) -> Answer:
    """A proxy that makes a tunnel, wherever it was asked to, to a port here."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: str) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        try:
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        finally:
            back.close()

    return answer


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def listening(
    answers: dict[str, Answer | list[Answer]], *, default: Answer | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    """A server for the time of the block. A list of answers is gone through, its last one stays."""
    told, tasks = Listener(), set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.connections += 1
        tasks.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split(" ")[1]
            told.paths.append(path)
            told.heads.append(head)
            found = answers.get(path, default or status(404))
            if isinstance(found, list):
                found = found.pop(0) if len(found) > 1 else found[0]
            await found(reader, writer, path)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # whoever dialled has gone
        finally:
            writer.close()
            writer.transport.abort()  # what nobody has read is not waited for

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    told.port = server.sockets[0].getsockname()[1]
    try:
        yield told
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
