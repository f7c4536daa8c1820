"""A scheduler process from start to end, in this one: what it needs, when it is ready, how it stops."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay import ConfigurationError, Emission, ModelSource
from handoff.pool import Pool
from scheduler.boot import run_scheduler
from scheduler.settings import SchedulerSettings
from tests.scheduler.tier import SECRET, Echo, Tier
from tests.support.ways import MODEL, NODE

pytestmark = pytest.mark.service


class Leaving(Echo):
    """Is told to stop, so many times, when it says its first last word."""

    signals = 1
    made: list[Leaving] = []

    def __init__(self) -> None:
        super().__init__()
        self.closed = 0
        self.made.append(self)

    def say(self, rid: str) -> Emission:
        emission = super().say(rid)
        if emission.finish_reason:
            pending, self.signals = self.signals, 0
            for _ in range(pending):
                signal.raise_signal(signal.SIGTERM)
        return emission

    def close(self) -> None:
        self.closed += 1


class Impatient(Leaving):
    signals = 2


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """What the process does on signals goes with the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    Leaving.made.clear()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def settings(redis_url: str, shm: Path) -> SchedulerSettings:
    return SchedulerSettings(
        secret=SECRET, redis_url=redis_url, deployment="test", node=NODE, run_dir=shm, model=ModelSource(MODEL)
    )


def left(folder: Path) -> list[str]:
    """Lock files of schedulers that are taken for alive."""
    return [path.name for path in folder.glob("owner-scheduler-*")]


def test_a_process_works_until_it_is_told_to_stop(tier: Tier, settings, tmp_path, monkeypatch):
    """Load, say ready, run, drain: what it had admitted is answered, and nothing of it stays."""
    before = left(settings.folder)  # the tier's own scheduler, which does nothing here
    tier.park_picture("r1")
    tier.park("r2", ids=[1, 2, 3, 4, 5, 6])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))

        status = run_scheduler(settings, Leaving)

        assert supervisor.recv(100) == b"READY=1"
    assert status == 0
    assert [tier.way.state(rid) for rid in ("r1", "r2")] == ["done", "done"]
    assert [engine.closed for engine in Leaving.made] == [1]
    assert tier.blocks == 0
    assert left(settings.folder) == before


def test_a_second_signal_ends_at_once(tier: Tier, settings):
    """With the exit status of the signal; the lock file goes, so that others take over at once."""
    before = left(settings.folder)
    tier.park("r1", ids=[1])
    tier.park("r2", ids=[1, 2, 3])

    with pytest.raises(SystemExit) as caught:
        run_scheduler(settings, Impatient)

    assert caught.value.code == 128 + signal.SIGTERM
    assert tier.way.state("r2") == "admitted"  # its lease lapses
    assert [engine.closed for engine in Leaving.made] == [1]
    assert left(settings.folder) == before


def test_a_model_without_an_engine_cannot_start(settings):
    """The name is told."""
    with pytest.raises(ConfigurationError, match="model 'toy' has no engine that can run it"):
        run_scheduler(settings)


def test_a_node_without_a_pool_is_told_which_file_is_missing(settings, monkeypatch):
    """After the time that the worker had to make it."""
    monkeypatch.setattr("scheduler.opening._LOOK_FOR_POOL_EVERY_S", 0.01)

    with pytest.raises(ConfigurationError, match=rf"no feature pool at {settings.pool_path}"):
        run_scheduler(replace(settings, pool_wait_s=0), Leaving)


def test_a_scheduler_waits_for_its_worker_to_make_the_pool(client, settings, monkeypatch):
    """They are started together."""
    monkeypatch.setattr("scheduler.opening._LOOK_FOR_POOL_EVERY_S", 0.01)
    monkeypatch.setattr("scheduler.boot.Scheduler.run", lambda self: None)
    making = threading.Timer(0.05, Pool.create, [settings.pool_path, 4096])
    making.start()

    assert run_scheduler(settings, Leaving) == 0

    making.join()


def test_a_scheduler_without_redis_does_not_start(shm, settings):
    """One line that names the setting and the address, before a model is loaded."""
    Pool.create(settings.pool_path, 4096)

    with pytest.raises(ConfigurationError, match="REDIS_URL: no Redis answers at unix:"):
        run_scheduler(replace(settings, redis_url="unix:///nowhere/redis.sock"), Leaving)

    assert Leaving.made == []
    assert left(shm) == []
