"""A real server of the tests' own: started on a free port of loopback, gone with the session."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from launch.redis_server import prepare


@contextmanager
def running_server(folder: Path, data_dir: Path | None = None) -> Iterator[str]:
    """The URL of a fresh server, for the time of the block."""
    server = prepare(folder, data_dir)
    process = subprocess.Popen(server.argv, stdin=subprocess.DEVNULL)
    try:
        _wait_until_it_answers(server.url)
        yield server.url
    finally:
        process.kill()
        process.wait()


def _wait_until_it_answers(url: str) -> None:
    with redis.Redis.from_url(url, socket_timeout=1) as client:
        for _ in range(200):
            try:
                client.ping()
                return
            except redis.ConnectionError:
                time.sleep(0.02)
    raise RuntimeError(f"no server answers at {url}")
