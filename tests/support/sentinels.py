"""A Redis with a replica, and a Sentinel that makes the replica the master when the master dies: real servers all."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from launch.redis_server import find_program, free_port

MASTER = "forebay"


class Watched:
    """The three servers."""

    def __init__(self, folder: Path, user: str = "") -> None:
        self._folder = folder
        self.ports = [free_port() for _ in range(3)]
        first, second, watcher = self.ports
        common = f"bind 127.0.0.1\nsave ''\nappendonly yes\nrepl-diskless-sync-delay 0\n{user}\n"
        self.servers = [
            self._start("first", f"port {first}\n{common}"),
            self._start("second", f"port {second}\n{common}replicaof 127.0.0.1 {first}\n"),
        ]
        self._until(lambda: self._ask(second, "role")[3] == b"connected", "the replica does not follow")
        self.watcher = self._start("sentinel", self._watching(watcher, first), "--sentinel")
        self._until(lambda: self._knows_replica(watcher), "the Sentinel does not see the replica")

    @property
    def url(self) -> str:
        """How Forebay is told of it; the first of the Sentinels is one that is down."""
        return f"sentinel://127.0.0.1:1,127.0.0.1:{self.ports[2]}/{MASTER}/0"

    def fail_over(self) -> None:
        """Kill the master, and wait until the other one is it."""
        self.servers[0].kill()
        self.servers[0].wait()
        self._until(lambda: self._ask(self.ports[1], "role")[0] == b"master", "nobody became the master")

    def remove(self) -> None:
        for process in (*self.servers, self.watcher):
            process.kill()
            process.wait()

    @staticmethod
    def _watching(port: int, master: int) -> str:
        lines = (
            f"port {port}",
            "bind 127.0.0.1",
            f"sentinel monitor {MASTER} 127.0.0.1 {master} 1",
            f"sentinel down-after-milliseconds {MASTER} 1000",
            f"sentinel failover-timeout {MASTER} 5000",
        )
        return "\n".join(lines) + "\n"

    def _start(self, name: str, config: str, *options: str) -> subprocess.Popen[bytes]:
        folder = self._folder / name
        folder.mkdir()
        (folder / "server.conf").write_text(f"dir {folder}\nlogfile {folder / 'log'}\n{config}")
        argv = [str(find_program()), str(folder / "server.conf"), *options]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL)

    def _knows_replica(self, port: int) -> bool:
        return bool(self._ask(port, "sentinel", "replicas", MASTER))

    @staticmethod
    def _ask(port: int, *command: str) -> list[bytes]:
        with redis.Redis(port=port, socket_timeout=1) as client:
            reply: list[bytes] = client.execute_command(*command)
            return reply

    @staticmethod
    def _until(holds: object, otherwise: str) -> None:
        assert callable(holds)
        for _ in range(500):
            try:
                if holds():
                    return
            except (redis.RedisError, IndexError):
                pass
            time.sleep(0.02)
        raise AssertionError(otherwise)


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """The servers for the time of the block."""
    servers = Watched(folder)
    try:
        yield servers
    finally:
        servers.remove()
