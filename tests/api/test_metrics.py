"""What an operator scrapes: counted here, read from Redis when asked."""

from __future__ import annotations

import pytest

from api.metrics import Metrics
from api.register import Register
from forebay.errors import Failed
from forebay.metrics import TABLE
from handoff.connection import connect_async
from tests.api.actors import announce

pytestmark = pytest.mark.service


@pytest.fixture
async def render(redis, keys, replies):
    """The lines of a scrape, without comments, by a register that remembers nothing."""
    metrics = Metrics()

    async def scrape() -> dict[str, float]:
        text = (await metrics.render(redis, keys, Register(redis, keys), replies)).decode()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    scrape.metrics = metrics
    return scrape


async def test_every_metric_of_the_table_is_there(redis, keys, replies):
    """With its help and its kind."""
    text = (await Metrics().render(redis, keys, Register(redis, keys), replies)).decode()

    for metric in TABLE:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        assert f"# HELP {name} {metric.help}" in text
        assert f"# TYPE {name} {metric.kind}" in text


async def test_an_answer_is_counted_by_how_it_ended(render):
    """And its time falls into a bucket."""
    render.metrics.answered("generate", "toy", "done", "ok", 0.03)
    render.metrics.answered("generate", "toy", "done", "ok", 0.03)
    render.metrics.answered("generate", "toy", "rejected", "too_wide", 0.001)

    lines = await render()

    assert lines['forebay_requests_total{code="ok",model="toy",route="generate",state="done"}'] == 2
    assert lines['forebay_requests_total{code="too_wide",model="toy",route="generate",state="rejected"}'] == 1
    assert lines['forebay_request_seconds_bucket{le="0.02",model="toy",route="generate"}'] == 1
    assert lines['forebay_request_seconds_bucket{le="0.05",model="toy",route="generate"}'] == 3
    assert lines['forebay_request_seconds_count{model="toy",route="generate"}'] == 3


async def test_what_waits_is_read_from_redis(render, client, keys, way, replies):
    """Live requests, queue lengths by lane, parked tickets by model, callers of this process."""
    announce(client, keys)
    way.queued("r1", "t1")
    way.parked("r2", "t2")

    with replies.watch("r1", "t1"):
        lines = await render()

    assert lines["forebay_live_requests"] == 2
    assert lines["forebay_waiting_callers"] == 1
    assert lines['forebay_queued_tasks{lane="text",node="n1"}'] == 2  # a message stays until a worker pops it
    assert lines['forebay_queued_tasks{lane="bulk",node="n1"}'] == 0
    assert lines['forebay_parked_tickets{model="toy",node="n1"}'] == 1


async def test_the_pool_is_as_its_node_announced_it(render, client, keys):
    """Size, use, blocks."""
    announce(client, keys, used_bytes=250)

    lines = await render()

    assert lines['forebay_pool_bytes{node="n1"}'] == 1000
    assert lines['forebay_pool_used_bytes{node="n1"}'] == 250
    assert lines['forebay_pool_blocks{node="n1"}'] == 1


async def test_a_node_that_has_gone_leaves_no_series_behind(render, client, keys):
    """An alert on a node that nobody runs any more would never end."""
    announce(client, keys)
    assert any('node="n1"' in name for name in await render())

    client.delete(keys.nodes)

    assert not any('node="n1"' in name for name in await render())


async def test_a_scrape_without_redis_fails_as_a_whole(keys, replies):
    """Half of the truth would look like all of it."""
    nobody = connect_async("unix:///nowhere/redis.sock", "test")

    with pytest.raises(Failed, match="cannot be reached"):
        await Metrics().render(nobody, keys, Register(nobody, keys), replies)
    await nobody.aclose()


async def test_the_register_is_read_at_most_once_a_second(redis, client, keys):
    """However many requests come: a node that has just gone is still seen, a fresh register sees it gone."""
    announce(client, keys)
    register = Register(redis, keys)
    assert [node.name for node in await register.nodes()] == ["n1"]

    client.delete(keys.nodes)

    assert [node.name for node in await register.nodes()] == ["n1"]
    assert await Register(redis, keys).nodes() == []
