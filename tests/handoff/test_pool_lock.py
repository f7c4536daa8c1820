"""The lock of the pool's table: one at a time, whoever they are, and a holder that does not go on is named."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handoff.pool import Pool, lock
from tests.support.forks import fork
from tests.support.neighbour import neighbour


@pytest.fixture
def folder(shm: Path) -> Path:
    Pool.create(shm / "pool", 1 << 20)
    return shm


@contextmanager
def opened(folder: Path) -> Iterator[Pool]:
    pool = Pool(folder / "pool", "test", writable=True)
    yield pool
    pool.close()


def order_of_two(first: Pool, second: Pool) -> list[str]:
    """Who was in the table when: the second comes while the first is in it."""
    order = []

    def other() -> None:
        with second._map.locked():
            order.append("second")

    with first._map.locked():
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join(5)
    return order


def test_threads_of_one_process_exclude_each_other(folder):
    """Through one opening of the pool."""
    with opened(folder) as pool:
        assert order_of_two(pool, pool) == ["first", "second"]


def test_two_openings_of_one_process_exclude_each_other(folder):
    """A record lock would be the whole process', and a table that is repaired beside a change is torn."""
    with opened(folder) as one, opened(folder) as other:
        assert order_of_two(one, other) == ["first", "second"]


def test_closing_one_opening_does_not_drop_the_lock_of_another(folder):
    """As it would with record locks."""
    with neighbour(folder) as stranger, opened(folder) as one:
        other = Pool(folder / "pool", "other", writable=True)
        with one._map.locked():
            other.close()
            done = threading.Event()
            thread = threading.Thread(target=lambda: (stranger.tell("write", 1, 100, "r1"), done.set()))
            thread.start()
            assert not done.wait(0.1)
        thread.join(5)
        assert done.is_set()


def in_child(act: Callable[[], bool]) -> bool:
    """What it says in a forked child."""
    pid = fork()
    if not pid:
        os._exit(0 if act() else 1)
    _, status = os.waitpid(pid, 0)
    return status == 0


def test_a_forked_child_does_not_share_the_lock_with_its_parent(folder):
    """Though another thread of the parent held it at the fork."""
    with opened(folder) as pool:
        with pool._map.locked():
            assert in_child(lambda: not pool._map._lock._is_free())
        assert in_child(lambda: pool.allocate(100, "r1", 1) is not None)
        assert [info.rid for info in pool.blocks()] == ["r1"]


def test_a_forked_child_leaves_the_files_of_others_alone(folder, tmp_path):
    """A pool that was closed is forgotten, for its number is another file's by then."""
    pool = Pool(folder / "pool", "test", writable=True)
    number = pool._map._fd
    pool.close()
    mine = os.open(tmp_path / "mine", os.O_RDWR | os.O_CREAT)
    assert mine == number  # the kernel gives the lowest that is free
    os.write(mine, b"12345")

    assert in_child(lambda: os.lseek(mine, 0, os.SEEK_CUR) == 5)
    os.close(mine)


def test_a_holder_that_is_stopped_is_named(folder, monkeypatch, caplog):
    """The node stands still, and its log says for whom; when that one goes on, so does everybody."""
    monkeypatch.setattr(lock, "_FIRST_WARNING_S", 0.1)
    with neighbour(folder) as holder, opened(folder) as pool, caplog.at_level(logging.WARNING):
        holder.tell("hold_lock")
        os.kill(pid := int(holder.owner.split("-")[1]), signal.SIGSTOP)
        got: list[object] = []
        waiting = threading.Thread(target=lambda: got.append(pool.allocate(100, "r1", 1)))
        waiting.start()
        until(lambda: caplog.records)

        assert got == []
        os.kill(pid, signal.SIGKILL)
        waiting.join(5)

        assert got[0] is not None
    said = caplog.records[0]
    assert (said.levelname, said.holder_pid, said.holder_state) == ("WARNING", pid, "T (stopped)")
    assert said.pool == str(folder / "pool")


def until(holds: Callable[[], object]) -> None:
    for _ in range(1000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")
