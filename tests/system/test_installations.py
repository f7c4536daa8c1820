"""Several installations on one host: none touches what is another's."""

from __future__ import annotations

import os
import secrets
import signal
import time
from pathlib import Path

import pytest

from forebay.client import Client
from handoff.pool import Pool
from launch.folders import remove_abandoned
from tests.support import media
from tests.support.deployment import Deployment, running
from tests.support.installation import contents, installed, wait_until
from tests.support.long import only_long
from tests.support.valkey import running_server
from tests.system.test_main_job import QUESTION

pytestmark = pytest.mark.system


@pytest.fixture
def redis_urls(tmp_path: Path):
    """A server for each of two installations."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with running_server(tmp_path / "one") as one, running_server(tmp_path / "other") as other:
        yield one, other


@pytest.fixture
def node():
    """The name of a node that nobody else has."""
    return f"test-{secrets.token_hex(4)}"


@pytest.mark.parametrize(
    ("part", "model"), [("worker", "qwen2-vl"), pytest.param("scheduler", "efficientnet-lite0", marks=only_long)]
)
def test_the_second_does_not_start_in_the_folder_of_the_first(redis_urls, node, part, model):
    """Both left deployment and node as they are by default, so both ask for the same folder: one line says so."""
    with installed(redis_urls[0], "forebay", node) as one, installed(redis_urls[1], "forebay", node) as other:
        assert one.folder == other.folder
        one.start_worker()
        one.park("r1")
        before = contents(one.folder)

        second = other.start(part, model=model)
        said, _ = second.communicate(timeout=60)

        assert second.returncode == 2
        assert said.splitlines()[-1] == (
            f"Error: {one.folder}/pool belongs to another installation of Forebay, with another FOREBAY_SECRET; "
            "give this one a FOREBAY_DEPLOYMENT or FOREBAY_RUN_DIR of its own"
        )
        assert contents(one.folder) == before
        one.sweeps(1)


def test_what_one_leaves_when_it_is_killed_the_other_does_not_touch(redis_urls, node):
    """Not the pool, byte for byte, nor a lock file, nor a record, though both share a host and a Redis."""
    url = redis_urls[0]
    with installed(url, "one", node) as one, installed(url, "other", node) as other:
        one.start_worker()
        other.start_worker()
        one.park("r1")
        one.kill()
        left, request = contents(one.folder), one.redis.dump(one.keys.record("r1"))
        assert len([name for name in left if name.startswith("owner-")]) == 2  # the child and its parent

        other.park("r1")
        other.sweeps(3)

        assert contents(one.folder) == left
        assert one.redis.dump(one.keys.record("r1")) == request
        one.start_worker()
        one.sweeps(1)
        assert one.state("r1") == "parked"
        pool = Pool(one.folder / "pool", "test", writable=False)
        assert [info.rid for info in pool.blocks()] == ["r1", "r1"]  # its picture, and its ids
        pool.close()


@only_long
def test_two_runs_side_by_side_are_two(tmp_path: Path):
    """`forebay up` twice: both answer, and what is killed of one is nothing to the other."""
    arguments = ["--model", "qwen2-vl", "--workers", "1", "--no-flower"]
    with running(arguments) as one, running(arguments) as other:
        assert one.folders[0] != other.folders[0]
        for url in (one.url, other.url):
            answers(url)

        kill_the_parts(one)
        left = contents(one.folders[0])
        assert "pool" in left
        time.sleep(3)  # as long as it takes the other's janitor to come round

        answers(other.url)
        assert contents(one.folders[0]) == left
        other.interrupt()
        assert other.wait() == 0
        assert contents(one.folders[0]) == left
        one.kill()
    remove_abandoned()  # as the next run does
    assert not any(folder.exists() for folder in one.folders)


def kill_the_parts(deployment: Deployment) -> None:
    """SIGKILL for all of them. The launcher is stopped, so that it starts none again and still holds its folders."""
    os.kill(deployment.process.pid, signal.SIGSTOP)
    parts = deployment.pids() - {deployment.process.pid}
    for pid in parts:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(map(runs, parts)), "a part outlives SIGKILL")


def runs(pid: int) -> bool:
    """Whether it is a process, and not only the memory of one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def answers(url: str) -> None:
    with Client(url) as client:
        answer = client.preprocess(model="qwen2-vl", text=QUESTION, images=[media.plain_png(56, 56)], features="none")
    assert len(answer.items) == 1
