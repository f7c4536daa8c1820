"""Deadlines without a janitor: the API ends what nobody else looks at, and nothing too early."""

import pytest

from api.expiry import Expiry
from forebay.errors import Failed
from handoff.connection import connect_async
from handoff.moves import LOG

pytestmark = pytest.mark.service


@pytest.fixture
def expiry(redis, keys):
    return Expiry(redis, keys)


@pytest.mark.parametrize("state", ["accepted", "queued", "processing", "parked", "admitted"])
async def test_a_request_past_its_deadline_is_ended_though_no_janitor_is_up(expiry, way, state):
    """At whatever stage; its block is handed to the janitor that will come."""
    way.to(state, reply_to=LOG)
    way.pass_deadline()

    assert await expiry.sweep() == 1

    assert way.state() == "expired"
    assert len(way.purged()) == (state == "parked")
    assert await expiry.sweep() == 0


async def test_a_request_that_has_time_left_is_left_alone(expiry, way):
    """However long nobody has looked at it."""
    way.queued()

    assert await expiry.sweep() == 0
    assert way.state() == "queued"
    assert way.live() == ["r1"]


async def test_no_number_of_live_requests_delays_a_deadline(expiry, way):
    """As many as are accepted by default, all with more time, and none of them looked at by anybody."""
    for number in range(2047):
        way.accept(f"long{number}", f"t{number}", max_live=2048)
    way.accept("short", "ts", max_live=2048)
    way.pass_deadline("short")

    assert await expiry.sweep() == 1

    assert (way.state("short"), len(way.live())) == ("expired", 2047)


async def test_all_deadlines_that_pass_together_are_kept_by_one_sweep(expiry, way):
    """More than one step of Redis ends."""
    for number in range(250):
        way.accept(f"r{number}", f"t{number}", max_live=2048)
        way.pass_deadline(f"r{number}")

    assert await expiry.sweep() == 250
    assert way.live() == []


async def test_a_name_without_a_record_does_no_harm(expiry, client, keys):
    """It is forgotten."""
    client.zadd(keys.due, {"gone": 1})

    assert await expiry.sweep() == 0
    assert client.zcard(keys.due) == 0


async def test_a_redis_that_is_away_is_said(keys):
    """And tried again a second later."""
    away = connect_async("redis://127.0.0.1:1", "test")

    with pytest.raises(Failed):
        await Expiry(away, keys).sweep()
    await away.aclose()
