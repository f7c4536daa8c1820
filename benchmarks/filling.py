"""The pool's table and the result index as they fill: what one step costs when much is there already."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.node import NODE, server
from handoff.connection import connect
from handoff.keys import Keys
from handoff.moves import Admit, Moves
from handoff.pool import Pool
from handoff.scripts import Move, perform, perform_all

_BATCH = 500


def measure_table(rounds: int = 3000) -> dict[int, tuple[float, float]]:
    """Microseconds to take a block and give it back, by the number of blocks that are taken already."""
    found: dict[int, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shm:
        Pool.create(Path(shm) / "pool", 256 << 20)
        pool = Pool(Path(shm) / "pool", "benchmark", writable=True)
        sizes = np.random.default_rng(0).integers(1, 200_000, 10_000).tolist()
        for blocks in (10, 100, 1000):
            while pool.stats().blocks < blocks:
                pool.allocate(sizes.pop(), "benchmark", 1)
            for info in pool.blocks()[::10]:  # holes, as they are after a while
                pool.free(info.handle)
                pool.allocate(sizes.pop(), "benchmark", 1)
            found[blocks] = _cost_us(lambda: _take_and_free(pool), rounds)
    return found


def _take_and_free(pool: Pool) -> None:
    block = pool.allocate(100_000, "benchmark", 1)
    assert block is not None
    pool.free(block.handle)


def measure_index(rounds: int = 300) -> dict[int, tuple[float, float]]:
    """Microseconds for one claim of one ticket, by the number of tickets that are parked."""
    found: dict[int, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as disk, server(Path(disk)) as url:
        client, moves = connect(url, "benchmark"), Moves(Keys("bench:"))
        parked = 0
        for tickets in (1_000, 10_000, 100_000):
            for first in range(parked, tickets + rounds, _BATCH):
                perform_all(client, _park(moves, range(first, min(first + _BATCH, tickets + rounds))))
            parked = tickets + rounds
            counter = iter(range(1 << 30))
            found[tickets] = _cost_us(lambda: _claim(client, moves, f"{tickets}-{next(counter)}"), rounds)  # noqa: B023
    return found


def _park(moves: Moves, numbers: range) -> list[Move[Any]]:
    """From accepted to parked, each request after the other."""
    steps: list[Move[Any]] = []
    for number in numbers:
        rid = f"r{number}"
        steps += [
            moves.accept(Admit(rid, rid, "m", "generate", 0, "", 600_000, 1 << 30)),
            moves.enqueue(rid, rid, b"", NODE, "text", b""),
            moves.begin(rid, rid, "w"),
            moves.park(rid, 1, "w", b"ticket", 10, {}),
        ]
    return steps


def _claim(client: Any, moves: Moves, nonce: str) -> None:
    [_] = perform(client, moves.claim("s", nonce, NODE, "m", most=1, tokens=1000))


def _cost_us(run: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Median and least; on a shared machine the median can double from one second to the next."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6, min(taken) * 1e6
