"""An installation of Forebay whose processes are started one by one, as a service manager does it."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay import Modality, Prompt
from forebay.media import digest_of
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff import nodes, record
from handoff.connection import Client, connect
from handoff.keys import Keys
from handoff.media import RedisStore
from handoff.moves import Admit, Moves
from handoff.pool.table import NUMBERS_AT, Number
from handoff.requeue import queue_entry
from handoff.scripts import perform
from tests.support.media import plain_png

MODEL = "qwen2-vl"
_WITHIN_S = 60.0
_IDS = (151652, 151655, 151653)


class Installation:
    """A secret, a name, a node on this host, and what runs there."""

    def __init__(self, redis_url: str, deployment: str, node: str) -> None:
        self.secret = secrets.token_hex(16)
        self.node = node
        self.folder = Path("/dev/shm") / f"forebay-{deployment}-{node}"
        self.redis: Client = connect(redis_url, "installation")
        self.keys = Keys(f"{deployment}:")
        self._env = {
            **os.environ,
            "FOREBAY_SECRET": self.secret,
            "FOREBAY_DEPLOYMENT": deployment,
            "FOREBAY_NODE": node,
            "REDIS_URL": redis_url,
            "FOREBAY_POOL_BYTES": "32MiB",
        }
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *command: str, model: str = MODEL, **env: str) -> subprocess.Popen[str]:
        """One of its processes, with all that it starts in a group of its own; of no model where that is empty."""
        asked = [sys.executable, "-m", "forebay", *command, *(("--model", model) if model else ())]
        process = subprocess.Popen(
            asked,
            env=self._env | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def start_worker(self) -> None:
        """A worker, and wait until it announces itself."""
        self.start("worker", "--workers", "1")
        wait_until(self._is_announced, "no worker has announced itself")

    def _is_announced(self) -> bool:
        seconds, _ = self.redis.time()
        parts = self.redis.hgetall(self.keys.node(self.node))
        return MODEL in nodes.read_node(self.node, parts, seconds * 1000).processors

    def park(self, rid: str) -> None:
        """Have a request prepared, which then waits for a scheduler with its features in the pool."""
        data, moves = plain_png(56, 56), Moves(self.keys)
        RedisStore(self.redis, self.keys).put(digest_of(data), data)
        ref = MediaRef(Modality.IMAGE, digest_of(data), len(data), "image_data")
        body = TaskBody(Kind.GENERATE, Prompt(ids=_IDS), (ref,))
        accepted = perform(self.redis, moves.accept(Admit(rid, "t", MODEL, "generate", 0, "", 600_000, 100)))
        task = Task(rid, "t", 1, MODEL, accepted.deadline_ms, 0, body.pack())
        entry = queue_entry(task, body, self.node, "interactive", self.secret.encode())
        sealed = seal(body.pack(), self.secret.encode())
        assert perform(self.redis, moves.enqueue(rid, "t", sealed, self.node, "interactive", entry)).ok
        wait_until(lambda: self.state(rid) == "parked", f"{rid} was not parked")

    def state(self, rid: str) -> str:
        found = record.read(self.redis, self.keys, rid)
        return "" if found is None else str(found.state)

    def kill(self) -> None:
        """SIGKILL for all of it at once."""
        for process in self._running:
            with suppress(ProcessLookupError):  # it has ended, and all that it started
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._running:
            process.communicate()
        self._running.clear()

    def sweeps(self, rounds: int) -> None:
        """Wait until its janitor has made so many rounds: what is put down for it is gone after each."""
        for number in range(rounds):
            bait = self.folder / f"owner-nobody-{number}"
            bait.touch()
            wait_until(lambda: not bait.exists(), "the janitor does not sweep")  # noqa: B023

    def remove(self) -> None:
        """End it, and leave nothing."""
        self.kill()
        self.redis.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def installed(redis_url: str, deployment: str, node: str) -> Iterator[Installation]:
    """An installation for the time of the block; nothing of it runs yet."""
    installation = Installation(redis_url, deployment, node)
    try:
        yield installation
    finally:
        installation.remove()


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    """Wait for something that comes soon."""
    give_up_at = time.monotonic() + _WITHIN_S
    while not is_so():
        assert time.monotonic() < give_up_at, otherwise
        time.sleep(0.05)


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    """Everything in a folder: when each file was changed, and what is in it.

    But for who had the pool's lock last: that changes with every look.
    """
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, hashlib.sha256(_what_counts(path)).hexdigest())
        for path in files
    }


def _what_counts(path: Path) -> bytes:
    data = bytearray(path.read_bytes())
    if path.name == "pool":
        at = NUMBERS_AT + 8 * Number.HOLDER
        data[at : at + 8] = bytes(8)
    return bytes(data)
