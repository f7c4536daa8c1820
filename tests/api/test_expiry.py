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
    way.make_due()

    assert await expiry.sweep() == 1

    assert way.state() == "expired"
    assert len(way.purged()) == (state == "parked")
    assert await expiry.sweep() == 0


async def test_a_request_that_has_time_left_is_left_alone(expiry, way):
    """However long nobody has looked at it."""
    way.queued()
    way.make_due()

    assert await expiry.sweep() == 0
    assert way.state() == "queued"
    assert way.live() == ["r1"]


async def test_what_a_janitor_looks_at_in_time_is_left_to_it(expiry, way, client, keys):
    """It knows more of what is to be done."""
    way.queued()
    way.pass_deadline()
    seconds, micros = client.time()
    client.zadd(keys.due, {"r1": seconds * 1000 + micros // 1000})

    assert await expiry.sweep() == 0
    assert way.state() == "queued"


async def test_a_name_without_a_record_does_no_harm(expiry, client, keys):
    """A janitor will take it out."""
    client.zadd(keys.due, {"gone": 1})

    assert await expiry.sweep() == 0


async def test_a_redis_that_is_away_is_said():
    """And tried again a second later."""
    away = connect_async("redis://127.0.0.1:1", "test")

    with pytest.raises(Failed):
        await Expiry(away, None).sweep()
    await away.aclose()
