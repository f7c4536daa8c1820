"""Redis goes away in the middle of an answer: nothing that an engine said is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from forebay import Emission
from forebay.errors import Failed
from handoff.connection import connect
from tests.scheduler.tier import Echo, make_tier
from tests.support.valkey import running_server

pytestmark = pytest.mark.service


class Unplugging(Echo):
    """Redis goes away just when it has said so many tokens."""

    def __init__(self, tokens: int, unplug: Callable[[], None]) -> None:
        super().__init__()
        self.tokens, self.unplug = tokens, unplug

    def say(self, rid: str) -> Emission:
        emission = super().say(rid)
        self.tokens -= 1
        if self.tokens == 0:
            self.unplug()
        return emission


@pytest.fixture
def redis_folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where a server of the test's own keeps what it acknowledged, over a restart."""
    (tmp_path / "redis").mkdir()
    return tmp_path / "redis", tmp_path / "data"


@pytest.mark.parametrize("tokens", [1, 2, 3], ids=["at a piece", "at another piece", "at the end"])
def test_what_redis_did_not_take_is_told_when_it_is_back(restless, shm, tmp_path, redis_folders, tokens):
    """An engine says everything once: no piece and no end may be lost, and the memory is not held meanwhile."""
    with ExitStack() as servers:
        client = connect(servers.enter_context(running_server(*redis_folders)), "test")
        tier = make_tier(client, shm, tmp_path, Unplugging(tokens, servers.close))
        tier.park_picture("r1", rows=[1])
        with pytest.raises(Failed, match="cannot be reached"):
            tier.turn(tokens)
    assert tier.blocks == (0 if tokens == 3 else 1)
    with pytest.raises(Failed):
        tier.turn()

    with running_server(*redis_folders):
        tier.finish("r1")

        assert tier.way.record("r1").result["outputs"][0]["text"] == "1 7 2 "
        assert [piece[2:] for piece in tier.pieces()] == [(0, "1 "), (1, "7 ")]
        assert tier.blocks == 0
    client.close()


def test_a_scheduler_pauses_without_redis_and_goes_on_with_it(restless, shm, tmp_path, redis_folders, monkeypatch):
    """The process outlives the server, and drains when it is told to in between."""
    monkeypatch.setattr("scheduler.loop._PAUSE_WITHOUT_REDIS_S", 0.01)
    with ExitStack() as servers:
        client = connect(servers.enter_context(running_server(*redis_folders)), "test")
        tier = make_tier(client, shm, tmp_path, Unplugging(2, servers.close))
        tier.park("r1", ids=[1, 2, 3])
        working = threading.Thread(target=tier.scheduler.run)
        working.start()
        while tier.engine.tokens > 0:
            time.sleep(0.005)
    tier.scheduler.stop()
    assert working.is_alive()

    with running_server(*redis_folders):
        working.join(10)

        assert not working.is_alive()
        assert tier.way.record("r1").result["outputs"][0]["text"] == "1 2 3 "
    client.close()
