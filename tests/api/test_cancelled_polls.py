"""A caller that leaves in the middle of a Redis command must not leave its reply to the next one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest

from api.tasks import end
from handoff.moves import End
from tests.api.actors import Staff, announce, result
from tests.api.process import started, talking_to
from tests.support.ways import Way

pytestmark = pytest.mark.service

CALLERS, POLLS = 20, 100
SLOWEST_S = 0.02


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_s: float) -> None:
    """What one side says, a little later, until it says no more."""
    try:
        while data := await reader.read(65536):
            await asyncio.sleep(random.uniform(most_s / 4, most_s))
            writer.write(data)
            await writer.drain()
    except ConnectionError:  # the one who was to hear it has left
        pass
    finally:
        writer.close()


@asynccontextmanager
async def slow(url: str) -> AsyncIterator[str]:
    """A proxy that answers some milliseconds later than the server behind it."""
    socket = urlsplit(url).path

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        its_reader, its_writer = await asyncio.open_unix_connection(socket)
        await asyncio.gather(pass_on(reader, its_writer, 0), pass_on(its_reader, writer, SLOWEST_S))

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{proxy.sockets[0].getsockname()[1]}/0"
    proxy.close()


@pytest.fixture
async def http(settings, client, keys, redis_url) -> AsyncIterator[httpx.AsyncClient]:
    """A process whose Redis is slow enough to be left in the middle of a command."""
    announce(client, keys)
    async with slow(redis_url) as url, started(replace(settings, redis_url=url)) as app, talking_to(app) as http:
        yield http


async def poll(http: httpx.AsyncClient, rid: str, rng: random.Random) -> tuple[int, set[str]]:
    """Ask for an answer again and again, and leave every other time; how often one left, and which answers came."""
    left, heard = 0, set[str]()
    for number in range(POLLS):
        asking = asyncio.ensure_future(http.get(f"/v1/requests/{rid}"))
        if number % 2:
            await asyncio.sleep(rng.uniform(0, SLOWEST_S))
            await end(asking)
        if asking.cancelled():
            left += 1
            continue
        response = await asking
        assert response.status_code == 200, response.text
        heard.add(response.json()["result"]["text"])
    return left, heard


async def test_a_poll_that_is_left_does_not_answer_the_next_one(http, way: Way, staff: Staff):
    """C107: twenty callers, two thousand polls; whoever stays hears of his own request alone."""
    rids = [f"r{number}" for number in range(CALLERS)]
    for number, rid in enumerate(rids):
        way.admitted(rid, claim=f"c{number}")
        staff.finish(rid, End.done(result(f"answer of {rid}")), f"c{number}")

    outcomes = await asyncio.gather(*(poll(http, rid, random.Random(rid)) for rid in rids))

    assert [heard for _, heard in outcomes] == [{f"answer of {rid}"} for rid in rids]
    assert sum(left for left, _ in outcomes) > CALLERS  # many times in the middle of a command
