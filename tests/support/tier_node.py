"""A node whose worker is a real process with real children, and whose processor does what the test says."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay import Modality, Prompt
from forebay.media import digest_of
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff import nodes, record
from handoff.connection import Client
from handoff.keys import Keys
from handoff.media import RedisStore
from handoff.moves import Admit, Moves
from handoff.record import Record
from handoff.requeue import queue_entry
from handoff.scripts import perform
from launch.proof import descendants
from tests.support import hostile

ROOT = Path(__file__).parents[2]
LANE = "interactive"


class WorkerProcess:
    """``forebay worker``, and what it has said."""

    def __init__(self, env: dict[str, str], children: int) -> None:
        command = [sys.executable, "-m", "forebay", "worker", "--model", hostile.NAME, "--workers", str(children)]
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def children(self) -> set[int]:
        return descendants(self.process.pid)

    def ended(self, within_s: float = 60) -> int:
        """The exit status, once it has ended."""
        status = self.process.wait(within_s)
        self._reader.join(5)
        return status

    def kill(self) -> None:
        """SIGKILL for it and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(5)


class TierNode:
    """A node's queue, records and workers."""

    def __init__(self, client: Client, redis_url: str, packages: Path) -> None:
        self.redis = client
        self.name = f"test-{secrets.token_hex(4)}"
        self.keys = Keys("test:")
        self.moves = Moves(self.keys)
        self.secret = secrets.token_hex(16).encode()
        self.folder = Path("/dev/shm") / f"forebay-test-{self.name}"
        self.workers: list[WorkerProcess] = []
        path = os.pathsep.join([str(packages), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._env = {
            **os.environ,
            "PYTHONPATH": path,
            "FOREBAY_SECRET": self.secret.decode(),
            "FOREBAY_DEPLOYMENT": "test",
            "FOREBAY_NODE": self.name,
            "REDIS_URL": redis_url,
            "FOREBAY_POOL_BYTES": "16MiB",
            "FOREBAY_CACHE_BYTES": "0",
        }

    def start(self, children: int = 1, **env: str) -> WorkerProcess:
        """A worker, which may not be ready yet."""
        worker = WorkerProcess({**self._env, **env}, children)
        self.workers.append(worker)
        return worker

    def started(self, children: int = 1, **env: str) -> WorkerProcess:
        """A worker that is ready."""
        worker = self.start(children, **env)
        self.wait_until(lambda: "worker ready" in worker.output, lambda: worker.output)
        return worker

    def is_announced(self) -> bool:
        seconds, _ = self.redis.time()
        parts = self.redis.hgetall(self.keys.node(self.name))
        return hostile.NAME in nodes.read_node(self.name, parts, seconds * 1000).processors

    def ask(self, rid: str, order: int = hostile.Order.NOTHING, timeout_ms: int = 60_000) -> bytes:
        """Accept and queue a request, as the API does. Its queue entry."""
        data = hostile.picture(order, abs(hash(rid)))
        RedisStore(self.redis, self.keys).put(digest_of(data), data)
        ref = MediaRef(Modality.IMAGE, digest_of(data), len(data), "image_data")
        body = TaskBody(Kind.GENERATE, Prompt(ids=(1, 7)), (ref,))
        admit = Admit(rid, rid, hostile.NAME, "generate", 0, "", timeout_ms, 10_000)
        accepted = perform(self.redis, self.moves.accept(admit))
        assert accepted.outcome == "ok"
        task = Task(rid, rid, 1, hostile.NAME, accepted.deadline_ms, 0, body.pack())
        entry = queue_entry(task, body, self.name, LANE, self.secret)
        sealed = seal(body.pack(), self.secret)
        assert perform(self.redis, self.moves.enqueue(rid, rid, sealed, self.name, LANE, entry)).ok
        return entry

    def push(self, entry: bytes) -> None:
        """Put an entry on the queue behind everybody's back."""
        self.redis.lpush(self.keys.queue(self.name, LANE), entry)

    def record(self, rid: str) -> Record:
        found = record.read(self.redis, self.keys, rid)
        assert found is not None
        return found

    def state(self, rid: str) -> str:
        return str(self.record(rid).state)

    def waits_for(self, rid: str, state: str, within_s: float = 40) -> None:
        """Wait until a request is in a state."""
        self.wait_until(lambda: self.state(rid) == state, lambda: f"{self.record(rid)}\n{self.said}", within_s)

    def backlog(self) -> int:
        return self.redis.llen(self.keys.queue(self.name, LANE))

    def in_hand(self) -> int:
        """Messages that somebody has taken and not acknowledged."""
        return sum(self.redis.llen(key) for key in self.redis.scan_iter(self.keys.taken(self.name, "*", "*")))

    def is_quiet(self) -> bool:
        """Nothing waits, and nobody has anything in hand."""
        return self.backlog() == self.in_hand() == 0

    @property
    def said(self) -> str:
        return "\n".join(worker.output for worker in self.workers)

    @staticmethod
    def wait_until(is_so: Callable[[], bool], otherwise: Callable[[], str], within_s: float = 40) -> None:
        give_up_at = time.monotonic() + within_s
        while not is_so():
            assert time.monotonic() < give_up_at, otherwise()
            time.sleep(0.02)

    def remove(self) -> None:
        for worker in self.workers:
            worker.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def tier_node(client: Client, redis_url: str, packages: Path) -> Iterator[TierNode]:
    """A node for the time of the block; nothing of it runs yet."""
    hostile.install(packages)
    node = TierNode(client, redis_url, packages)
    try:
        yield node
    finally:
        node.remove()
