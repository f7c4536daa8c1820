"""The scene: a Redis that keeps what it acknowledged, the proxy before it, and a whole deployment behind that."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from handoff.connection import Client, connect
from handoff.keys import Keys
from handoff.pool import Pool
from launch.redis_server import find_program, free_port
from tests.chaos.proxy import Proxy
from tests.support.deployment import Deployment, running

DEPLOYMENT = "chaos"
POOL_BYTES = 64 << 20
ARGUMENTS = [
    *("--model", "efficientnet-lite0", "--model", "qwen2-vl"),
    *("--workers", "2", "--no-flower", "--pool-bytes", str(POOL_BYTES)),
]


class Server:
    """A Redis with an append-only file, which can be killed and comes back with what it had."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._argv = [
            str(find_program()),
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"),
            *("--logfile", str(folder / "redis.log")),
        ]
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._argv, stdin=subprocess.DEVNULL)

    def kill_and_restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()
        self.wait()

    def wait(self) -> None:
        """Until it answers; it may have to read its file first."""
        with redis.Redis(port=self.port, socket_timeout=1) as client:
            for _ in range(500):
                with suppress(redis.RedisError):
                    client.ping()
                    return
                time.sleep(0.02)
        raise RuntimeError("Redis does not come back")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Site:
    """What the nemesis strikes, and what the law looks at, past the proxy."""

    server: Server
    proxy: Proxy
    deployment: Deployment
    redis: Client
    keys: Keys

    @property
    def url(self) -> str:
        return self.deployment.url

    @property
    def pool(self) -> Path:
        return next(path for folder in self.deployment.folders for path in folder.glob("pool"))

    def pids(self, part: str) -> list[int]:
        """Processes of a part, the parent first."""
        return self.deployment.pids_of(part)

    @contextmanager
    def looking_at_pool(self) -> Iterator[Pool]:
        pool = Pool(self.pool, "chaos-law", writable=False, prefault=False)
        try:
            yield pool
        finally:
            pool.close()


@contextmanager
def staged(folder: Path) -> Iterator[Site]:
    """The scene, for the time of the block; nothing of it is left."""
    server = Server(folder)
    server.wait()
    proxy = Proxy(server.port)
    proxy.start()
    url = f"redis://127.0.0.1:{proxy.port}/0"
    env = {"FOREBAY_SECRET": "chaos" * 8, "FOREBAY_MAX_LIVE": "400", "FOREBAY_DEPLOYMENT": DEPLOYMENT}
    try:
        with running([*ARGUMENTS, "--redis", url], env) as deployment:
            past_the_proxy = connect(f"redis://127.0.0.1:{server.port}/0", "chaos-law")
            yield Site(server, proxy, deployment, past_the_proxy, Keys(f"{DEPLOYMENT}:"))
            past_the_proxy.close()
    finally:
        proxy.stop()
        server.stop()


def strike(pid: int, number: signal.Signals) -> bool:
    """Send a signal; ``False`` when the process had gone."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
