"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from forebay.errors import ConfigurationError
from handoff.connection import AsyncClient, Client, connect, connect_async
from handoff.keys import Keys
from handoff.moves import Moves
from launch.folders import remove_abandoned
from launch.proof import descendants
from launch.redis_server import find_program
from tests.support.valkey import running_server


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take away what an earlier run left that was killed."""
    if not is_one_of_several(session.config):
        remove_abandoned()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After all tests no run's folder is abandoned. The last to end looks: the others' runs come and go."""
    if is_one_of_several(session.config):
        return
    left = remove_abandoned()
    if left:
        print(f"\nabandoned by a test: {left}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def is_one_of_several(config: pytest.Config) -> bool:
    """Whether this is one of the processes that ``-n`` makes, and not the one that made them."""
    return hasattr(config, "workerinput")


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Set up first and torn down last: after all tests, no process of theirs runs."""
    yield
    assert running_programs() == []


def running_programs() -> list[str]:
    """What the tests have started and not ended; Python's own helper process ends with us."""
    programs = []
    for pid in descendants(os.getpid()):
        with suppress(FileNotFoundError, ProcessLookupError):
            programs.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    return [program for program in programs if program and "resource_tracker" not in program]


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server for the whole session. Missing, it skips at home and fails in CI."""
    try:
        find_program()
    except ConfigurationError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    with running_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """A connection to an empty database."""
    with redis.Redis.from_url(redis_url) as admin:
        admin.flushall()
    client = connect(redis_url, "test")
    yield client
    client.close()


@pytest.fixture(name="redis")
async def async_redis(client: Client, redis_url: str) -> AsyncIterator[AsyncClient]:
    """An asyncio connection to the same, for those that run in an event loop."""
    found = connect_async(redis_url, "test-async")
    yield found
    await found.aclose()


@pytest.fixture
def keys() -> Keys:
    return Keys("test:")


@pytest.fixture
def moves(keys: Keys) -> Moves:
    return Moves(keys)


@pytest.fixture
def shm(tmp_path: Path) -> Iterator[Path]:
    """A folder on tmpfs that goes with the test."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="forebay-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_real_time() -> Iterator[None]:
    """A test that raises its own process' priority takes the machine from all that come after it."""
    yield
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
