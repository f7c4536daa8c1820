"""A Redis that is full, with ``noeviction``: no new work comes in, and what is in goes on to its end."""

import pytest

from forebay.errors import Failed
from handoff.moves import LOG, End, Fence
from tests.support.ways import NODE

pytestmark = pytest.mark.service


@pytest.fixture
def fill(client):
    """Fills it, as far as writes are concerned."""

    def fill():
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", 1)

    yield fill
    client.config_set("maxmemory", 0)


def test_no_new_request_is_accepted(way, fill):
    """503, and nothing of it is written: not even its share of the tenant's account."""
    fill()

    with pytest.raises(Failed) as caught:
        way.accept(tenant="acme")

    assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("redis_full", 503, 5)
    assert way.account("acme") == (0, 0)
    assert way.live() == []


def test_an_accepted_request_is_not_queued_and_can_be_ended(way, fill):
    """The API that cannot queue it says so in its record."""
    way.accept()
    fill()

    with pytest.raises(Failed, match="the request store is full"):
        way.enqueue()

    assert way.do(way.moves.finish("r1", Fence.token("t1"), End.expired())).ok
    assert way.messages() == []


def test_what_is_queued_goes_all_the_way(way, fill):
    """Begun, parked, claimed, told, renewed, ended: its end makes room."""
    way.queued(reply_to=LOG)
    fill()

    assert way.begin().outcome == "run"
    assert way.park().ok
    assert [one.rid for one in way.claim()] == ["r1"]
    assert way.renew({"r1": "c1"}) == []
    assert way.emit()
    assert way.do(way.moves.finish("r1", Fence.claim("c1"), End.done({"n": 1}))).ok
    assert way.record().result == {"n": 1}


def test_what_is_stuck_can_be_cancelled_lapsed_and_replayed(way, fill):
    """The janitor's work goes on as well."""
    way.admitted("r1", "t1", "c1")
    way.queued("r2", "t2")
    way.let_lapse("r1")
    way.make_due("r2")
    way.queued("r3", "t3")
    way.pass_deadline("r3")
    fill()

    assert way.do(way.moves.lapse(NODE, "toy")) == ["r1"]
    seen = way.record("r1").seen
    assert way.do(way.moves.replay("r1", seen, 2, NODE, b"again")).ok
    assert way.do(way.moves.look(NODE, "toy"))[1] == ["r2"]
    assert way.cancel("r2") == "queued"
    assert way.do(way.moves.expire()).ended == (("r3", "queued"),)
