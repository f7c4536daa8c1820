"""A task that a worker has reserved behind another one, and that is cancelled before its turn."""

from __future__ import annotations

import pytest

from forebay.media import digest_of
from handoff.media import Spool
from tests.support.caching import GREEN, RED, Counting

pytestmark = pytest.mark.service


def test_a_reserved_task_that_is_cancelled_fetches_and_stores_nothing(node, monkeypatch):
    """C098: and the long one before it, in whose time it was cancelled, is done as if nothing had happened."""
    fetched = []
    get = Spool.get
    monkeypatch.setattr(Spool, "get", lambda store, digest: (fetched.append(digest), get(store, digest))[1])
    toy = Counting(lambda media: node.way.cancel("short"))
    driver = node.driver(toy)
    reserved = [
        node.task(node.reference(data), rid=rid, token=f"t-{rid}") for rid, data in (("long", RED), ("short", GREEN))
    ]

    for message in reserved:
        driver.run(message)

    assert (node.way.state("long"), node.way.state("short")) == ("parked", "cancelled")
    assert fetched == toy.made == [digest_of(RED)]
    assert [block.rid for block in node.pool.blocks()] == ["long"]
