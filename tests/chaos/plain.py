"""Celery as it comes, and with the settings that are usually called reliable: a tier to strike beside ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
from celery import Celery

from launch.proof import descendants
from tests.chaos.proxy import Proxy
from tests.chaos.site import Server

TASK_S = 0.05
_DONE = "plain:done"

_WORKER = "from tests.chaos.plain import make_app; make_app().worker_main(['worker', '-c', '2', '-l', 'ERROR'])"

RELIABLE = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    "broker_transport_options": {"visibility_timeout": 30},
    "broker_connection_retry_on_startup": True,
}
"""What tutorials call reliable. Without the visibility timeout a lost message would come back after an hour."""


def make_app() -> Celery:
    """The application, configured by what its process is told."""
    app = Celery("plain", broker=os.environ["PLAIN_BROKER"])
    app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
    if os.environ.get("PLAIN_RELIABLE"):
        app.conf.update(RELIABLE)

    @app.task(name="plain.work")
    def work(number: int) -> None:
        time.sleep(TASK_S)
        with redis.Redis.from_url(os.environ["PLAIN_STORE"]) as store:
            store.rpush(_DONE, number)

    return app


@dataclass
class PlainSite:
    """A worker that is started again when it dies, as a supervisor would."""

    server: Server
    proxy: Proxy
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def pids(self, part: str) -> list[int]:
        assert part == "worker"
        if self.process is None or self.process.poll() is not None:
            return []
        return [self.process.pid, *sorted(descendants(self.process.pid))]

    def keep_up(self) -> None:
        """Start the worker, and again whenever it has died, until told to stop."""
        argv = [sys.executable, "-c", _WORKER]
        while not self._stop.is_set():
            self.process = subprocess.Popen(
                argv, env=self.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            )
            while self.process.poll() is None and not self._stop.is_set():
                time.sleep(0.05)
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            time.sleep(0.5)

    def stop(self) -> None:
        self._stop.set()

    def wait_until_it_works(self) -> None:
        """Until a first task has run."""
        self._sender().send_task("plain.work", [-1])
        for _ in range(600):
            if self.done():
                return
            time.sleep(0.1)
        raise RuntimeError("plain Celery does not work")

    def publish(self, seconds: float, count: int) -> list[int]:
        """Send that many tasks over that time; those that the client says it has sent."""
        sender, sent = self._sender(), []
        for number in range(count):
            with suppress(Exception):  # an error is told to the caller, who knows that it was not sent
                sender.send_task("plain.work", [number], retry=False)
                sent.append(number)
            time.sleep(seconds / count)
        return sent

    def _sender(self) -> Celery:
        return Celery("sender", broker=self.env["PLAIN_BROKER"], broker_transport_options={"socket_timeout": 5})

    def done(self) -> Counter[int]:
        """How often each task has run."""
        with redis.Redis(port=self.server.port, db=1) as store:
            return Counter(int(number) for number in store.lrange(_DONE, 0, -1))


@contextmanager
def plain(folder: Path, *, reliable: bool) -> Iterator[PlainSite]:
    """Plain Celery over the same kind of Redis and proxy, for the time of the block."""
    server = Server(folder)
    server.wait()
    proxy = Proxy(server.port)
    proxy.start()
    env = {
        **os.environ,
        "PLAIN_BROKER": f"redis://127.0.0.1:{proxy.port}/0",
        "PLAIN_STORE": f"redis://127.0.0.1:{server.port}/1",
        "PLAIN_RELIABLE": "1" if reliable else "",
    }
    site = PlainSite(server, proxy, env)
    keeper = threading.Thread(target=site.keep_up)
    keeper.start()
    try:
        yield site
    finally:
        site.stop()
        keeper.join()
        proxy.stop()
        server.stop()
