"""The ``forebay pool`` commands, as an operator types them."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from forebay import DType, Modality
from handoff.note import Note
from handoff.pool import FeatureCache, Owner, Pool
from launch.pool import pool as command

MIB = 1 << 20


@pytest.fixture
def worker(shm):
    Pool.create(shm / "pool", 64 * MIB)
    life = Owner(shm, "worker")
    pool = Pool(shm / "pool", life.id, writable=True)
    FeatureCache(pool).set_budget(32 * MIB)
    yield pool
    life.close()
    pool.close()


def forebay(worker, *arguments):
    return CliRunner().invoke(command, ["--dir", str(worker.path.parent), *arguments], env={"COLUMNS": "100"})


def enter(worker, number, size=MIB, *, held=False):
    """An entry whose key is the number, 32 times."""
    key, cache = bytes([number]) * 32, FeatureCache(worker)
    [flight] = cache.seek([key], f"r{number}", 1)
    block = worker.allocate(size, f"r{number}", 1)
    block.carve((10, 100), DType.FLOAT32)
    digest = f"sha256:{number:02x}" + "0" * 62
    note = Note(Modality.IMAGE, digest, 1, 0, DType.FLOAT32, (10, 100), None, 10, {}).pack()
    cache.commit(flight, key, block.handle, (block.write(note), len(note)))
    if not held:
        worker.free(block.handle)
    return block


# the view


def test_what_nobody_holds_and_who_waits_are_shown_too(worker):
    """Cached features that could go, the line for room, and what was counted."""
    enter(worker, 1, 16 * MIB)
    enter(worker, 2, 16 * MIB, held=True)
    worker.join_line(40 * MIB)

    shown = forebay(worker).output

    assert "1 blocks, 16.0 of 64.0 MiB taken; 2 cached features, 16.0 MiB held by nobody; 1 waiting for room" in shown
    assert "|" + "c" * 16 + "w" * 16 + "." * 32 + "|" in shown
    assert "0 hits, 2 misses, 0 attached, 0 evicted; 1 waits of 0.0 s together;" in shown
    assert re.search(rf"│ 40\.0 +│ \d+\.\d +│ {worker.owner} +│", shown)


def test_a_long_list_of_blocks_is_cut_short(worker):
    """The oldest are shown: those that stand still."""
    for number in range(60):
        worker.allocate(64, f"r{number}", 1)

    shown = forebay(worker).output

    assert "│ r0 " in shown
    assert "│ r50 " not in shown
    assert "and 10 younger ones" in shown


# the cache


def test_the_cache_is_listed_with_the_least_recently_used_first(worker):
    """Key, size, holds, whether it is pinned, what it is; and how much of the budget is used."""
    enter(worker, 1)
    enter(worker, 2, held=True)
    FeatureCache(worker).pin("01" * 32)
    FeatureCache(worker).seek([b"made".ljust(32)], "r3", 1)

    first, *table = forebay(worker, "cache").output.splitlines()

    assert first == "2 cached features, 1.0 MiB held by nobody, of at most 32.0; 1 being made"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table if "│" in line]
    assert rows == [
        ["01" * 8, "1.0", "0", "yes", "float32 10x100", "image 01000000…"],
        ["02" * 8, "1.0", "1", "", "float32 10x100", "image 02000000…"],
    ]


def test_an_empty_cache_is_one_line(worker):
    """No empty table."""
    assert forebay(worker, "cache").output == (
        "0 cached features, 0.0 MiB held by nobody, of at most 32.0; 0 being made\n"
    )


def test_a_pinned_feature_stays_until_it_is_let_go(worker):
    """Whatever room is needed: the beginning of its key names it."""
    enter(worker, 1, 40 * MIB)
    enter(worker, 0xAB, MIB)

    assert forebay(worker, "pin", "AB").output == f"{'ab' * 8} stays\n"
    assert worker.allocate(64 * MIB, "r", 1) is None
    assert forebay(worker, "pin", "ab", "--off").output == f"{'ab' * 8} may go\n"
    assert worker.allocate(64 * MIB, "r", 1) is not None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("0", "2 cached features have a key that begins with '0'; give more of it"),
        ("zz", "none of the 2 cached features has a key that begins with 'zz'"),
    ],
)
def test_a_key_that_names_none_or_several_is_refused(worker, key, said):
    """Nothing is pinned by chance."""
    enter(worker, 1)
    enter(worker, 2)

    ended = forebay(worker, "pin", key)

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (2, f"Error: {said}")
    assert not any(entry.is_pinned for entry in FeatureCache(worker).entries())


def test_clear_forgets_everything_and_takes_nothing_away(worker):
    """What is in use goes with its request."""
    enter(worker, 1)
    held = enter(worker, 2, held=True)
    FeatureCache(worker).pin("01" * 32)

    assert forebay(worker, "clear").output == "2 cached features forgotten\n"

    assert FeatureCache(worker).entries() == []
    assert worker.is_current(held.handle)
    assert worker.stats().used_bytes == MIB


# what can be wrong


def test_a_pool_that_was_cut_off_is_told_in_one_line(worker):
    """Also by a command that has opened it before."""
    os.truncate(worker.path, MIB)

    for arguments in ([], ["cache"], ["clear"], ["--live"]):
        ended = forebay(worker, *arguments)
        assert ended.exit_code == 2
        assert f"Error: {worker.path}: " in ended.output


def test_a_file_that_is_no_pool_is_told_in_one_line(shm):
    """Rather than shown as one."""
    (shm / "pool").write_bytes(b"x" * 5000)

    ended = CliRunner().invoke(command, ["--dir", str(shm)])

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (2, f"Error: {shm}/pool: not a feature pool")


def test_live_goes_with_no_other_command(worker):
    """It would say nothing of what it was asked for."""
    ended = forebay(worker, "--live", "cache")

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (
        2,
        "Error: --live draws the pool; it does not go with 'cache'",
    )


# live


class Terminal:
    """A terminal in which ``forebay pool --live`` runs, and what it has shown so far."""

    def __init__(self, folder):
        self._main, side = pty.openpty()
        arguments = [sys.executable, "-m", "forebay", "pool", "--dir", str(folder), "--live"]
        self.process = subprocess.Popen(arguments, stdin=side, stdout=side, stderr=side)
        os.close(side)
        os.set_blocking(self._main, False)
        self.shown = ""

    def wait_for(self, text):
        give_up_at = time.monotonic() + 30
        while text not in self.shown:
            assert time.monotonic() < give_up_at, self.shown
            time.sleep(0.02)
            try:
                self.shown += os.read(self._main, 65536).decode(errors="replace")
            except BlockingIOError:
                continue

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._main)


@pytest.fixture
def terminal(worker):
    terminal = Terminal(worker.path.parent)
    yield terminal
    terminal.close()


def test_live_draws_it_anew_until_ctrl_c(worker, terminal):
    """What changes meanwhile is seen; Ctrl-C is how it is meant to end."""
    terminal.wait_for("0 blocks, 0.0 of 64.0")
    worker.allocate(16 * MIB, "r1", 1)
    terminal.wait_for("1 blocks, 16.0 of 64.0")

    terminal.process.send_signal(signal.SIGINT)

    assert terminal.process.wait(10) == 0


def test_live_ends_when_the_pool_is_replaced(worker, terminal):
    """It would go on to draw what nobody uses any more."""
    terminal.wait_for("0 blocks")

    worker.path.unlink()
    terminal.wait_for("was removed, replaced or cut off")

    assert terminal.process.wait(10) == 2
