"""``forebay pool``: the operator's view of shared memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from forebay import ConfigurationError
from handoff.pool import Owner, Pool
from launch.pool import pool
from launch.pool.find import find_pool
from launch.pool.view import pool_map


def test_blocks_are_shown_with_their_state_their_request_and_the_dead(shm: Path):
    """Who wrote, who reads, and whose lock file nobody holds any more."""
    Pool.create(shm / "pool", 64 << 20)
    life = Owner(shm, "worker")
    worker = Pool(shm / "pool", life.id, writable=True)
    worker.allocate(32 << 20, "first", 1)
    second = worker.allocate(16 << 20, "second", 2)
    worker.park(second.handle)
    Pool(shm / "pool", "scheduler-gone", writable=False).take(second.handle)

    shown = CliRunner().invoke(pool, ["--dir", str(shm)], env={"COLUMNS": "160"}).output

    assert "2 blocks, 48.0 of 64.0 MiB taken" in shown
    assert "w" * 32 + "r" * 16 + "." * 16 in shown
    assert "scheduler-gone (dead)" in shown
    assert f"{life.id} (dead)" not in shown
    assert "first" in shown
    life.close()


def test_an_empty_pool_is_all_free():
    """Nothing taken, nothing but dots."""
    assert pool_map([], [], 1 << 20) == "." * 64


def test_a_missing_pool_is_named_with_those_there_are(tmp_path: Path):
    """The path that was looked at, and what to choose from."""
    for name in ("forebay-a", "forebay-b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pool").touch()

    with pytest.raises(ConfigurationError) as caught:
        find_pool(tmp_path / "mine", tmp_path)

    assert str(caught.value) == (
        f"no feature pool at {tmp_path}/mine/pool; there are: {tmp_path}/forebay-a, {tmp_path}/forebay-b"
    )


def test_the_only_pool_there_is_need_not_be_named(tmp_path: Path):
    """A run of `forebay up` picks its folder's name itself."""
    (tmp_path / "forebay-up-1").mkdir()
    (tmp_path / "forebay-up-1" / "pool").touch()

    assert find_pool(tmp_path / "mine", tmp_path) == tmp_path / "forebay-up-1" / "pool"


def test_another_pool_is_never_taken_for_the_one_that_was_named(tmp_path: Path):
    """What is cleared there is somebody's."""
    (tmp_path / "forebay-prod").mkdir()
    (tmp_path / "forebay-prod" / "pool").touch()

    with pytest.raises(ConfigurationError, match=r"no feature pool at .*staging/pool; there are: .*forebay-prod"):
        find_pool(tmp_path / "staging", tmp_path, was_named=True)
