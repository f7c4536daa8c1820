"""Everything that anybody says to a Redis: what is written and published, and what is gone again by the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

_END = "that was all"


@contextmanager
def overheard(url: str) -> Iterator[list[str]]:
    """The commands of the block, scripts' own among them; they are all there once it has ended."""
    said: list[str] = []
    with redis.Redis.from_url(url) as client:
        ear = client.connection_pool.make_connection()
        ear.connect()
        ear.send_command("MONITOR")
        assert ear.read_response() == b"OK"
        listening = threading.Thread(target=_listen, args=(ear, said))
        listening.start()
        try:
            yield said
        finally:
            client.echo(_END)
            listening.join(10)
            ear.disconnect()


def _listen(ear: redis.Connection, said: list[str]) -> None:
    while True:
        line = ear.read_response().decode()
        if line.endswith(f'"ECHO" "{_END}"'):
            return
        said.append(line)
