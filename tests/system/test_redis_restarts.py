"""A Redis that ends and comes back: workers take tasks again by themselves, and no request is lost."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handoff.connection import answers, connect
from launch.redis_server import prepare
from tests.support.hostile import Order
from tests.support.tier_node import TierNode, tier_node

pytestmark = pytest.mark.system


class Restartable:
    """A server that keeps what it has acknowledged."""

    def __init__(self, folder: Path) -> None:
        self._server = prepare(folder, folder / "data")
        self.url = self._server.url
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._server.argv, stdin=subprocess.DEVNULL)
        for _ in range(500):
            if answers(self.url):
                return
            time.sleep(0.01)
        raise AssertionError("the server does not answer")

    def restart(self) -> None:
        """By SIGKILL, as it happens."""
        self.end()
        self._start()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(tmp_path) -> Iterator[Restartable]:
    (tmp_path / "data").mkdir()
    server = Restartable(tmp_path)
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def node(server, tmp_path) -> Iterator[TierNode]:
    """A node whose Redis is that server."""
    packages = tmp_path / "packages"
    packages.mkdir()
    client = connect(server.url, "test")
    with tier_node(client, server.url, packages) as node:
        yield node
    client.close()


def test_twenty_requests_outlive_three_restarts_in_a_row(server, node):
    """C094: every one of them ends, and the worker is the one that it was."""
    worker = node.started(children=2)
    rids = [f"r{number}" for number in range(20)]
    for rid in rids:
        node.ask(rid, Order.TAKE_A_WHILE)

    for _ in range(3):
        time.sleep(0.5)
        server.restart()

    for rid in rids:
        node.waits_for(rid, "parked")
    node.wait_until(node.is_quiet, lambda: node.said)
    assert {node.record(rid).attempt for rid in rids} == {1}
    assert worker.process.poll() is None
    node.ask("afterwards")
    node.waits_for("afterwards", "parked")


def test_a_worker_with_an_idle_child_outlives_a_restart(server, node):
    """C094: its channel is closed after its connection, with a message in hand, while nobody acknowledges anything."""
    worker = node.started(children=2)
    for number, order in enumerate((Order.TAKE_A_WHILE, Order.SLEEP)):
        node.ask(f"at-it-{number}", order)
        node.waits_for(f"at-it-{number}", "processing")

        server.restart()

        node.ask(f"later-{number}")
        node.waits_for(f"later-{number}", "parked")
    node.waits_for("at-it-0", "parked")
    assert worker.process.poll() is None
