"""A connection that is cut in the middle of a reply: nothing is half heard, and nobody hears another's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from handoff.connection import connect, connect_async
from tests.chaos.proxy import Proxy
from tests.support.consuming import consuming, entry, in_hand, push, queued

pytestmark = pytest.mark.service

VALUES = {f"test:{letter}": letter * 40 for letter in "abc"}
REPLY = len(b"$40\r\n") + 40 + len(b"\r\n")


@pytest.fixture
def proxy(redis_url) -> Iterator[Proxy]:
    proxy = Proxy(urlsplit(redis_url).path)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture
def url(proxy) -> str:
    return f"redis://127.0.0.1:{proxy.port}/0"


@pytest.fixture
def values(client):
    for key, value in VALUES.items():
        client.set(key, value)
    return {key: value.encode() for key, value in VALUES.items()}


def test_a_blocking_client_hears_its_own_answer_wherever_the_cut_fell(proxy, url, values):
    """At every byte of a reply, the first and the last included."""
    with connect(url, "test") as client:
        client.ping()
        for cut in range(REPLY):
            proxy.cut_after = cut

            assert {key: client.get(key) for key in values} == values, cut
            assert proxy.cut_after is None


async def test_callers_at_once_hear_their_own_answers_wherever_the_cut_fell(proxy, url, values):
    """They share a few connections; the one that is cut is not used again."""
    client = connect_async(url, "test", at_once=2)
    await client.ping()
    for cut in range(0, 3 * REPLY, 5):
        proxy.cut_after = cut

        found = await asyncio.gather(*(client.get(key) for key in [*values] * 2))

        assert found == [*values.values()] * 2, cut
        assert proxy.cut_after is None
    await client.aclose()


@pytest.mark.parametrize("cut", [0, 3, 40, 200, 400])
def test_a_message_whose_taking_was_cut_is_in_hand_once(proxy, url, client, cut):
    """It was taken, and its taker never heard of it: the same worker's next connection has it."""
    with consuming(url) as hand:
        hand.take(for_s=0.1)
        proxy.cut_after = cut
        push(client, entry(1))
        with pytest.raises(hand.connection.connection_errors):
            hand.take(for_s=5)
        assert hand.messages == []

        with consuming(url) as again:
            assert again.take(most=2, for_s=1.5) == ["r1"]
            again.messages[0].ack()
            assert (in_hand(client), queued(client)) == ({}, [])
