"""A TCP proxy before Redis: it cuts every connection, or one in the middle of a reply, or makes each reply late."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

_PIECE = 64 << 10


@dataclass
class Proxy:
    """Runs in a thread of its own; its knobs may be turned from any other.

    Attributes:
        target: the server's port on loopback, or the path of its socket.
        delay_s: how late replies are.
        cut_after: so many more bytes of replies pass, and then the connection that they came over is cut, once.
    """

    target: int | str
    delay_s: float = 0.0
    cut_after: int | None = None
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _ready: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def cut(self) -> None:
        """Close every connection, in the middle of whatever it says."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        self._cut()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        if tasks:  # they end by themselves, now that their connections are cut
            self._loop.run_until_complete(asyncio.wait(tasks, timeout=5))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            there, back = await self._open()
        except OSError:
            self._writers.discard(writer)
            writer.transport.abort()
            return
        self._writers.add(back)
        try:
            await asyncio.gather(self._pump(reader, back, late=False), self._pump(there, writer, late=True))
        finally:
            for one in (writer, back):
                self._writers.discard(one)
                one.transport.abort()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection("127.0.0.1", self.target)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, late: bool) -> None:
        try:
            while piece := await reader.read(_PIECE):
                if late and self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if late and self.cut_after is not None:
                    passes, self.cut_after = self.cut_after, None
                    if passes < len(piece):
                        writer.write(piece[:passes])
                        return
                    self.cut_after = passes - len(piece)
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass  # cut, here or there
        finally:
            writer.close()
