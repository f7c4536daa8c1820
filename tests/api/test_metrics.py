"""What an operator scrapes: counted here, read from Redis when asked."""

from __future__ import annotations

import pytest

from api.metrics import Metrics
from api.register import Register
from forebay import ModelSource
from forebay.errors import Failed
from forebay.metrics import TABLE
from handoff import quarantine
from handoff.connection import connect_async
from handoff.pool import FeatureCache, Owner, Pool
from handoff.pool.table import Number
from handoff.quarantine import Entry, set_aside
from handoff.scripts import perform
from tests.api.actors import SECRET, announce
from tests.support.toys import loaded
from workers.boot import Upkeep
from workers.offers import Offers
from workers.place import prepare_node
from workers.settings import WorkerSettings

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


async def test_what_was_set_aside_is_counted_by_reason(render, client, keys):
    """Also when the entries themselves are forgotten."""
    for reason in ("not_json", "not_json", "bad_signature"):
        perform(client, set_aside(keys, Entry.of_message(b"x", reason, "", "n1")))
    quarantine.clear(client, keys)

    lines = await render()

    assert lines['forebay_quarantined_total{reason="not_json"}'] == 2
    assert lines['forebay_quarantined_total{reason="bad_signature"}'] == 1


async def test_the_pool_is_as_its_node_announced_it(render, client, keys):
    """Size, use, blocks."""
    announce(client, keys, used_bytes=250)

    lines = await render()

    assert lines['forebay_pool_bytes{node="n1"}'] == 1000
    assert lines['forebay_pool_used_bytes{node="n1"}'] == 250
    assert lines['forebay_pool_blocks{node="n1"}'] == 1


@pytest.fixture
def worker(client, redis_url, shm):
    """The parent of a node's workers, as far as it announces, and a pool in which something has happened."""
    settings = WorkerSettings(
        secret=SECRET,
        redis_url=redis_url,
        deployment="test",
        node="n1",
        run_dir=shm,
        pool_bytes=1 << 20,
        models=(ModelSource("toy"),),
    )
    prepare_node(settings)
    offers = Offers(shm, "n1")
    offers.report([loaded()])
    life = Owner(shm, "parent")
    upkeep = Upkeep(settings, offers, life)
    yield upkeep
    upkeep.close()
    life.close()


@pytest.fixture
def pool(worker, shm):
    life = Owner(shm, "worker")
    pool = Pool(shm / "pool", life.id, writable=True)
    yield pool
    life.close()
    pool.close()


def use(pool):
    """A cached feature that is found, another block, one who has waited, and one who waits."""
    cache, key = FeatureCache(pool), b"k" * 32
    cache.set_budget(1 << 19)
    [flight] = cache.seek([key], "r1", 1)
    cache.commit(flight, key, pool.allocate(1 << 16, "r1", 1).handle, (0, 8))
    [found] = cache.seek([key], "r2", 1)
    pool.free(found.block.handle)
    pool.free(next(info.handle for info in pool.blocks()))
    pool.allocate(1 << 10, "r3", 1)
    pool.leave_line(pool.join_line(64), 1.5)
    pool.join_line(64)


async def test_a_pool_is_seen_as_it_is(render, worker, pool):
    """Gauges of what is there now, counters of what has happened; from what a worker announces."""
    use(pool)
    worker.tick()

    lines = {name: value for name, value in (await render()).items() if 'node="n1"' in name}

    assert {name: value for name, value in lines.items() if "pool" in name or "cache" in name} == {
        'forebay_pool_bytes{node="n1"}': 1 << 20,
        'forebay_pool_used_bytes{node="n1"}': 1 << 10,
        'forebay_pool_blocks{node="n1"}': 1,
        'forebay_pool_waiting{node="n1"}': 1,
        'forebay_cache_bytes{node="n1"}': 1 << 16,
        'forebay_cache_entries{node="n1"}': 1,
        'forebay_cache_hits_total{node="n1"}': 1,
        'forebay_cache_misses_total{node="n1"}': 1,
        'forebay_cache_attaches_total{node="n1"}': 0,
        'forebay_cache_evictions_total{node="n1"}': 0,
        'forebay_pool_waits_total{node="n1"}': 2,
        'forebay_pool_waited_ms_total{node="n1"}': 1500,
    }
    assert {name for name in lines if name.startswith(("forebay_copied", "forebay_late", "forebay_orphaned"))} == {
        'forebay_copied_bytes_total{node="n1"}',
        'forebay_late_results_total{node="n1"}',
        'forebay_orphaned_blocks_total{node="n1"}',
    }


async def test_counters_of_a_pool_only_rise(render, worker, pool):
    """Also when what they counted is gone: a rate is made of them."""
    use(pool)
    worker.tick()
    before = await render()
    FeatureCache(pool).clear()
    pool.count(Number.COPIED_BYTES, 100)
    worker.tick()

    after = await render()

    assert after['forebay_cache_entries{node="n1"}'] == 0
    counters = [name for name in before if name.endswith('_total{node="n1"}')]
    assert len(counters) == 9
    assert {name for name in counters if after[name] != before[name]} == {'forebay_copied_bytes_total{node="n1"}'}


async def test_blocks_of_the_dead_are_counted_when_they_are_freed(render, worker, pool, shm):
    """By the janitor, in the round after it has announced."""
    dead = Owner(shm, "worker")
    Pool(shm / "pool", dead.id, writable=True).allocate(64, "r1", 1)
    dead.close()

    worker.tick()
    worker.tick()

    assert (await render())['forebay_orphaned_blocks_total{node="n1"}'] == 1


async def test_a_node_whose_workers_are_away_has_no_pool(render, client, keys, worker, pool):
    """Its engine still lives. A zero would be a pool without bytes, and its counters would seem to begin anew."""
    use(pool)
    worker.tick()
    announce(client, keys, "n1", models=())
    assert any("pool" in name for name in await render())

    worker.close()

    assert not [name for name in await render() if 'node="n1"' in name and ("pool" in name or "cache" in name)]


async def test_each_node_has_its_own_pool(render, client, keys, worker, pool):
    """Two nodes, two series."""
    use(pool)
    worker.tick()
    announce(client, keys, "n2", used_bytes=250)

    lines = await render()

    assert [lines[f'forebay_pool_used_bytes{{node="{node}"}}'] for node in ("n1", "n2")] == [1 << 10, 250]


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
