"""Another process on the node, which does to the pool what a line on its standard input says, and answers in a line.

Run as ``python -m tests.support.neighbour FOLDER ROLE``; it takes part until its input ends or it is killed.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Neighbour:
    """The handle to such a process."""

    def __init__(self, folder: Path, role: str = "worker") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.neighbour", str(folder), role],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._owner: str | None = None

    @property
    def owner(self) -> str:
        """The name under which it holds blocks, told when it is up; two may come up at the same time."""
        if self._owner is None:
            self._owner = self._answer()
        return self._owner

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the neighbour has died"
        return json.loads(line)

    def tell(self, verb: str, *arguments: Any) -> Any:
        """Have it do something; what came of it."""
        assert self.owner
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        """SIGKILL, once it is up: nothing of its own runs any more."""
        assert self.owner
        self._process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Let it leave in order, once it is up. Safe to call twice."""
        assert self.owner
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(10)


@contextmanager
def neighbour(folder: Path, role: str = "worker") -> Iterator[Neighbour]:
    """One for the time of the block."""
    one = Neighbour(folder, role)
    try:
        yield one
    finally:
        one.kill()


def main(folder: Path, role: str) -> None:
    from handoff.pool import Owner, Pool

    life = Owner(folder, role)
    pool = Pool(folder / "pool", life.id, writable=role == "worker")
    neighbourhood = _Verbs(pool)
    print(json.dumps(life.id), flush=True)
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        print(json.dumps(getattr(neighbourhood, verb)(*arguments)), flush=True)
    life.close()


class _Verbs:
    """What it can be told."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._kept: list[Any] = []

    def hold_lock(self) -> str:
        """Take the pool's lock and keep it, as if it were stopped in the middle of a change."""
        manager = self._pool._map.locked()
        manager.__enter__()
        self._kept.append(manager)
        return "held"

    def write(self, byte: int, length: int, rid: str, attempt: int = 1) -> list[Any]:
        """Allocate a block and fill it; its handle."""
        from forebay import DType

        block = self._pool.allocate(length, rid, attempt)
        array, _ = block.carve((length,), DType.UINT8)
        array[:] = byte
        return _fields(block.handle)

    def park(self, handle: list[Any]) -> str:
        self._pool.park(_handle(handle))
        return "parked"

    def read(self, handle: list[Any], length: int) -> list[int]:
        """Take a block; the values it holds, each once."""
        from forebay import DType
        from forebay.ticket import ArrayAt

        block = self._pool.take(_handle(handle))
        return sorted(set(block.array(ArrayAt(0, 0, DType.UINT8, (length,))).tolist()))

    def free(self, handle: list[Any]) -> bool:
        return bool(self._pool.free(_handle(handle)))

    def wait(self, length: int) -> int:
        """Stand in the line; the turn."""
        return int(self._pool.join_line(length))

    def make(self, key: str) -> str:
        """Begin to make a cache entry; the key in hex."""
        from handoff.pool import FeatureCache

        FeatureCache(self._pool).seek([bytes.fromhex(key)], "r", 1)
        return key

    def draft(self, name: str) -> str:
        """Begin to write a file, and never end it."""
        from handoff.drafts import draft

        manager = draft(self._pool.path.parent / name)
        self._kept.append(manager)
        return str(manager.__enter__()[0])


def _fields(handle: Any) -> list[Any]:
    return [handle.pool, handle.slot, handle.offset, handle.length, handle.generation]


def _handle(fields: list[Any]) -> Any:
    from forebay.ticket import Handle

    return Handle(*fields)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
