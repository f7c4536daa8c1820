"""The list of what a tenant has asked for: pages that neither repeat nor leave out."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.connection import connect_async
from handoff.history import page

pytestmark = pytest.mark.service


async def pages(redis, keys, limit, wanted=lambda one: True, tenant="acme"):
    """The ids of every page, to the last."""
    found, mark = [], None
    for _ in range(100):
        rows, mark = await page(redis, keys, tenant, wanted, limit, mark)
        found.append([one.rid for one in rows])
        if mark is None:
            return found
    raise AssertionError("the pages do not end")


def ask(way, times, tenant="acme"):
    """Requests that were accepted at those times, in ms."""
    for number, at in enumerate(times):
        rid = f"{tenant}/r{number:03}"
        assert way.accept(rid, f"t{number}", tenant=tenant, max_live=1000).outcome == "ok"
        way.client.zadd(way.moves.keys.asked(tenant), {rid: at})
        way.client.hset(way.moves.keys.record(rid), "t_accepted", at)


@given(times=st.lists(st.integers(1, 5), max_size=12), limit=st.integers(1, 13))
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_pages_together_are_the_list(way, client, keys, redis_url, times, limit):
    """Newest first, also where several came in the same millisecond and a page ends between them."""
    client.flushdb()
    redis = connect_async(redis_url, "test-pages")
    ask(way, times)

    found = await pages(redis, keys, limit)
    await redis.aclose()

    newest_first = sorted(range(len(times)), key=lambda n: (times[n], n), reverse=True)
    assert [rid for rows in found for rid in rows] == [f"acme/r{n:03}" for n in newest_first]
    assert all(len(rows) <= limit for rows in found)


async def test_a_list_can_be_of_one_kind_alone(way, redis, keys):
    """However few of many they are."""
    ask(way, range(1, 451))
    for number in range(0, 450, 200):
        way.cancel(f"acme/r{number:03}")

    found = await pages(redis, keys, 2, lambda one: one.state.is_end)

    assert [rid for rows in found for rid in rows] == ["acme/r400", "acme/r200", "acme/r000"]


async def test_what_comes_while_a_page_is_read_repeats_nothing(way, redis, keys, monkeypatch):
    """It shifts all the others; it is seen when somebody asks the next time."""
    monkeypatch.setattr("handoff.history._AT_ONCE", 2)
    ask(way, [1, 2, 3, 4])

    def wanted(one):
        if one.rid == "acme/r003":
            way.accept("acme/new", "new", tenant="acme")
        return True

    found, mark = await page(redis, keys, "acme", wanted, 10)

    assert ([one.rid for one in found], mark) == ([f"acme/r00{n}" for n in (3, 2, 1, 0)], None)


async def test_a_tenant_sees_its_own(way, redis, keys):
    """And the nameless one, where there are no keys, what is nameless."""
    ask(way, [1, 2])
    ask(way, [3], tenant="other")
    way.accept("r", "t")

    assert await pages(redis, keys, 10, tenant="other") == [["other/r000"]]
    assert await pages(redis, keys, 10, tenant="") == [["r"]]


async def test_what_is_forgotten_is_not_listed(way, redis, keys, client):
    """A record expires before its name goes from the list."""
    ask(way, [1, 2])
    client.delete(keys.record("acme/r000"))

    assert await pages(redis, keys, 10) == [["acme/r001"]]
