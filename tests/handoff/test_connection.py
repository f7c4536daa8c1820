"""Connections to Redis: as many as are of use, and nobody is sent away because they are all in use."""

from __future__ import annotations

import asyncio

import pytest

from forebay import Failed
from handoff.connection import connect_async, redis_failures

pytestmark = pytest.mark.service

ROLE = "test-crowd"


@pytest.fixture
async def redis(client, redis_url):
    redis = connect_async(redis_url, ROLE, at_once=4)
    yield redis
    await redis.aclose()


def connections(client) -> int:
    return sum(one["name"] == f"forebay-{ROLE}" for one in client.client_list())


async def test_more_commands_than_connections_wait_their_turn(redis, client):
    """All of them are done, over no more connections than there may be."""
    counted = await asyncio.gather(*(redis.incr("test:n") for _ in range(500)))

    assert sorted(counted) == list(range(1, 501))
    assert 1 <= connections(client) <= 4


async def test_whoever_is_cancelled_takes_no_turn_from_others(redis, client):
    """While it waits for a connection, and while it has one."""
    for _ in range(20):
        blocked = [asyncio.ensure_future(redis.blpop(["test:nothing"], 1)) for _ in range(4)]
        waiting = [asyncio.ensure_future(redis.incr("test:n")) for _ in range(8)]
        await asyncio.sleep(0.002)
        for one in (*blocked, *waiting[:4]):
            one.cancel()
        async with asyncio.timeout(2):
            await asyncio.gather(*blocked, *waiting, return_exceptions=True)
        assert [one.exception() for one in waiting[4:]] == [None] * 4

    assert len(await asyncio.gather(*(redis.ping() for _ in range(50)))) == 50


async def test_a_connection_that_cannot_be_made_gives_its_place_back(tmp_path):
    """However often: the next one is told the same, and at once."""
    nowhere = connect_async(f"unix://{tmp_path / 'none.sock'}", ROLE, at_once=1)
    for _ in range(3):
        async with asyncio.timeout(5):
            with pytest.raises(Failed, match="cannot be reached"), redis_failures():
                await nowhere.ping()
    await nowhere.aclose()


async def test_patience_has_an_end(redis, monkeypatch):
    """Where nothing becomes free, Redis does not keep up."""
    monkeypatch.setattr("handoff.connection._PATIENCE_S", 0.05)
    blocked = [asyncio.ensure_future(redis.blpop(["test:nothing"], 1)) for _ in range(4)]
    await asyncio.sleep(0.05)

    with pytest.raises(Failed) as caught, redis_failures():
        await redis.ping()

    assert (caught.value.code, caught.value.retry_after_s) == ("redis_unavailable", 2)
    await asyncio.gather(*blocked)


def test_what_redis_refuses_is_told_without_what_was_to_be_written(client):
    """Redis-py quotes the command of a pipeline; its reason is enough for a caller."""
    client.set("test:text", "x")

    with pytest.raises(Failed, match="refused a step: WRONGTYPE") as caught, redis_failures():
        client.pipeline(transaction=False).lpush("test:text", "what nobody may see").execute()

    assert "nobody" not in caught.value.message
