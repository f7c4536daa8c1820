"""A worker that takes a small block, keeps it a moment and gives it back, again and again; it waits in line if it must.

Run as ``python -m tests.support.stream FOLDER LENGTH``. It says ``up`` after its first block, ends with its input, and
then says how many blocks it had.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.neighbour import ROOT

_KEPT_S = 0.002


@contextmanager
def streams(folder: Path, count: int, length: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Several of them, all at it; ended after the block, and killed if they do not end."""
    command = [sys.executable, "-m", "tests.support.stream", str(folder), str(length)]
    pipe = subprocess.PIPE
    running = [subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
    try:
        for one in running:
            assert one.stdout is not None
            assert one.stdout.readline() == "up\n"
        yield running
    finally:
        for one in running:
            one.kill()
            one.communicate()


def had(stream: subprocess.Popen[str]) -> int:
    """End one, and ask it how many blocks it had."""
    said, _ = stream.communicate(timeout=10)
    return int(said)


def main(folder: Path, length: int) -> None:
    from handoff.pool import Owner, Pool

    life = Owner(folder, "worker")
    pool = Pool(folder / "pool", life.id, writable=True)
    count = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        block = pool.allocate(length, "small", 1) or wait(pool, length)
        time.sleep(_KEPT_S)
        pool.free(block.handle)
        count += 1
        if count == 1:
            print("up", flush=True)
    print(count)
    life.close()


def wait(pool, length):
    """Wait in line, however long."""
    began = time.monotonic()
    turn = pool.join_line(length)
    while True:
        time.sleep(0.001)
        blocks = pool.allocate_all([length], "small", 1, turn=turn)
        if blocks:
            pool.leave_line(turn, time.monotonic() - began)
            return blocks[0]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
