"""A Redis that Sentinels watch: when its master dies, workers and API go on with the next one."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from handoff.connection import answers, connect, connect_async, require
from tests.support.sentinels import Watched, watched
from tests.support.tier_node import tier_node

pytestmark = pytest.mark.system


@pytest.fixture
def servers(tmp_path):
    folder = tmp_path / "servers"
    folder.mkdir()
    with watched(folder) as servers:
        yield servers


def test_a_worker_goes_on_with_the_next_master(servers: Watched, tmp_path):
    """What was parked is there still, and what comes afterwards is done, over the same connections' settings."""
    client = connect(servers.url, "test")
    with tier_node(client, servers.url, tmp_path) as node:
        worker = node.started()
        node.ask("before")
        node.waits_for("before", "parked")
        node.redis.wait(1, 5000)  # replication is asynchronous: what the replica has not got is lost with the master

        servers.fail_over()

        node.wait_until(lambda: answers(servers.url), lambda: "no master")
        assert node.state("before") == "parked"
        node.ask("after")
        node.waits_for("after", "parked")
        node.wait_until(node.is_quiet, lambda: node.said)
        assert worker.process.poll() is None
    client.close()


def test_both_clients_find_the_next_master(servers: Watched):
    """Blocking and asyncio, with a connection that has died."""

    async def both() -> list[bytes | None]:
        client = connect_async(servers.url, "test", at_once=2)
        await client.set("key", b"value")
        await client.wait(1, 5000)
        await asyncio.to_thread(servers.fail_over)
        for _ in range(100):
            if await asyncio.to_thread(answers, servers.url):
                break
            await asyncio.sleep(0.05)
        try:
            return await asyncio.gather(*(client.get("key") for _ in range(4)))
        finally:
            await client.aclose()

    require(servers.url)
    blocking = connect(servers.url, "test")
    blocking.ping()

    assert asyncio.run(both()) == [b"value"] * 4
    assert blocking.get("key") == b"value"
    blocking.close()


class Deaf:
    """Who listens where a Sentinel should, and hangs up on everybody."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port, self.heard = self.listening.getsockname()[1], 0
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                calling, _ = self.listening.accept()
                self.heard += 1
                calling.close()

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self._thread.join()


@pytest.fixture
def deaf():
    one = Deaf()
    yield one
    one.close()


def test_a_sentinel_that_is_away_is_asked_once_for_a_connection(servers: Watched, deaf: Deaf):
    """Asked ten times, as redis-py has it, it would cost every new connection four seconds."""
    url = servers.url.replace("127.0.0.1:1,", f"127.0.0.1:{deaf.port},")

    client = connect(url, "test")
    client.ping()
    client.close()
    assert deaf.heard == 1

    async def ping() -> None:
        client = connect_async(url, "test", at_once=1)
        await client.ping()
        await client.aclose()

    asyncio.run(ping())
    assert deaf.heard == 2
