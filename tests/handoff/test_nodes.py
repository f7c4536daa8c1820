"""The register of nodes: what is offered now, and what has fallen silent."""

import pytest

from handoff.connection import connect_async
from handoff.keys import Keys
from handoff.nodes import (
    KEPT_MS,
    SILENT_MS,
    NodeView,
    ProcessorOffer,
    announce,
    live_nodes,
    read_node,
    view_nodes,
    withdraw,
)

pytestmark = pytest.mark.service

OFFER = {"model": "toy", "fingerprint": "f", "modalities": {"image": 4}, "extensions": True}
POOL = {"data_bytes": 100, "used_bytes": 40, "blocks": 2}
WORKERS = {"processors": [OFFER], "pool": POOL}


@pytest.fixture
async def nodes(redis_url, keys):
    """The nodes as an API process reads them."""
    client = connect_async(redis_url, "test")

    async def view():
        return await view_nodes(client, keys)

    yield view
    await client.aclose()


def now_ms(client):
    seconds, micros = client.time()
    return seconds * 1000 + micros // 1000


async def test_a_node_is_the_sum_of_its_parts(client, keys, nodes):
    """Workers say what they process and how full the pool is, schedulers which engine runs."""
    announce(client, keys, "n1", "workers", WORKERS)
    announce(client, keys, "n1", "engine:toy", {"scheduler": "s1"})
    announce(client, keys, "n1", "engine:another", {"scheduler": "s2"})

    offer = ProcessorOffer("toy", "f", {"image": 4}, extensions=True)
    assert await nodes() == [NodeView("n1", {"toy": offer}, ("another", "toy"), POOL)]


async def test_a_part_that_withdraws_is_gone_at_once(client, keys, nodes):
    """Nobody waits for its silence."""
    announce(client, keys, "n1", "workers", WORKERS)
    announce(client, keys, "n1", "engine:toy", {})
    withdraw(client, keys, "n1", "engine:toy")

    [node] = await nodes()
    assert (list(node.processors), node.engines) == (["toy"], ())


async def test_a_node_that_is_silent_is_not_seen(client, keys, nodes):
    """Its entry may stay; its time tells."""
    announce(client, keys, "n1", "workers", WORKERS)
    client.zadd(keys.nodes, {"n1": now_ms(client) - SILENT_MS - 1})

    assert await nodes() == []


def test_a_part_that_is_silent_counts_as_gone():
    """While the node's other parts live on."""
    parts = {b"workers": b'{"at": 1000, "processors": [], "pool": {}}', b"engine:toy": b'{"at": 16000}'}

    assert read_node("n1", parts, 16_000).engines == ("toy",)
    assert read_node("n1", parts, 1000 + SILENT_MS - 1).pool == {}
    assert read_node("n1", {b"engine:toy": b'{"at": 1000}'}, 1000 + SILENT_MS).engines == ()
    assert read_node("n1", {b"engine:toy": b'{"at": 1001}'}, 1000 + SILENT_MS).engines == ("toy",)


def test_a_scheduler_that_is_silent_is_remembered_and_one_that_stopped_is_not():
    """The first was killed and is likely to come back: its callers are told to come again, not that nothing runs it."""
    parts = {b"workers": b'{"at": 16000}', b"engine:toy": b'{"at": 1000}', b"engine:other": b'{"at": 16000}'}

    node = read_node("n1", parts, 1000 + SILENT_MS)

    assert (node.engines, dict(node.silent_engines)) == (("other",), {"toy": SILENT_MS})


def test_a_node_lives_while_any_of_its_parts_does(client, keys):
    """The reconciler asks for names alone."""
    announce(client, keys, "n1", "workers", WORKERS)
    announce(client, keys, "n2", "engine:toy", {})
    now = now_ms(client)

    assert live_nodes(client, keys, now) == {"n1", "n2"}
    assert live_nodes(client, keys, now + SILENT_MS + 1000) == set()


def test_a_node_that_is_gone_for_long_leaves_no_facts(client, keys):
    """They expire by themselves."""
    announce(client, keys, "n1", "workers", WORKERS)

    assert 0 < client.pttl(keys.node("n1")) <= 10 * SILENT_MS


def test_a_name_is_forgotten_after_a_day_of_silence(client, keys):
    """Nodes come and go with names of their own; one that comes back is there again."""
    for name, ago_ms in (("gone", KEPT_MS + 1000), ("silent", KEPT_MS - 60_000)):
        client.zadd(keys.nodes, {name: now_ms(client) - ago_ms})

    announce(client, keys, "n1", "workers", WORKERS)
    assert client.zrange(keys.nodes, 0, -1) == [b"silent", b"n1"]
    assert 0 < client.pttl(keys.nodes) <= KEPT_MS

    announce(client, keys, "gone", "workers", WORKERS)
    assert live_nodes(client, keys, now_ms(client)) == {"n1", "gone"}


def test_two_deployments_on_one_redis_do_not_see_each_other(client, keys):
    """The prefix is part of every key."""
    announce(client, keys, "n1", "workers", WORKERS)

    assert live_nodes(client, Keys("other:"), now_ms(client)) == set()
    assert all(name.startswith(b"test:") for name in client.scan_iter())
