"""Every response says which request it is of; SGLang's way to abort one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.api.actors import announce
from tests.api.process import started, talking_to

pytestmark = pytest.mark.service


@pytest.fixture
async def http(settings, client, keys) -> AsyncIterator[httpx.AsyncClient]:
    announce(client, keys)
    async with started(settings) as app, talking_to(app) as http:
        yield http


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/health", None, 200),
        ("GET", "/nowhere", None, 404),
        ("GET", "/generate", None, 405),
        ("POST", "/generate", {"text": ""}, 400),
        ("POST", "/v1/requests", {"text": "a"}, 202),
        ("GET", "/v1/requests/unknown%20%C3%A9", None, 404),
    ],
)
async def test_every_response_has_an_id(http, method, path, body, status):
    """Good or bad; it can be looked for in the log."""
    response = await http.request(method, path, json=body)

    assert response.status_code == status
    assert 1 <= len(response.headers["X-Request-Id"]) <= 128


async def test_a_requests_own_id_is_told(http):
    """Also of one that was refused."""
    sent = await http.post("/v1/requests", json={"text": "a", "rid": "mine"})
    again = await http.post("/v1/requests", json={"text": "a", "rid": "mine"})

    assert (sent.headers["X-Request-Id"], again.headers["X-Request-Id"]) == ("mine", "mine")
    assert again.status_code == 409


async def test_the_callers_id_of_a_call_is_kept(http):
    """Where the request has none of its own, and where it is one."""
    kept = await http.get("/health", headers={"X-Request-Id": "call-7"})
    odd = await http.get("/health", headers={"X-Request-Id": "x" * 129})

    assert kept.headers["X-Request-Id"] == "call-7"
    assert len(odd.headers["X-Request-Id"]) == 32


async def test_one_request_is_aborted_by_its_id(http, way):
    """An unknown one, an empty body, a second time: all the same to the caller."""
    for rid in ("r1", "r2"):
        await http.post("/v1/requests", json={"text": "a", "rid": rid})

    answers = [await http.post("/abort_request", json={"rid": rid}) for rid in ("r1", "r1", "unknown")]
    answers.append(await http.post("/abort_request"))

    assert [(answer.status_code, answer.content) for answer in answers] == [(200, b"")] * 4
    assert (way.state("r1"), way.state("r2")) == ("cancelled", "queued")


@pytest.mark.parametrize("rid", ["\\ud800", "a\\nb", "x" * 5000, "..", "\\u0000"])
async def test_what_can_be_no_id_aborts_nothing(http, rid):
    """It is as unknown as any other unknown one."""
    content, headers = f'{{"rid": "{rid}"}}', {"Content-Type": "application/json"}

    answer = await http.post("/abort_request", content=content, headers=headers)

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("rid", ["a/b", "a/events", "/events", "events", "a%2Fb", "?x=1#y", "//", "a/../b", ";"])
async def test_whatever_an_id_looks_like_it_can_be_asked_for(http, rid):
    """Where the answer to its submission says, written with %2F for a slash; its events too."""
    sent = await http.post("/v1/requests", json={"text": "a", "rid": rid})
    place = sent.headers["Location"]

    shown = await http.get(place)
    cancelled = await http.delete(place)
    events = await http.get(f"{place}/events")

    assert (sent.json()["rid"], shown.json()["rid"], cancelled.json()["rid"]) == (rid, rid, rid)
    assert cancelled.json()["state"] == "cancelled"
    assert events.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("rid", [".", ".."])
async def test_a_name_that_no_path_keeps_is_no_id(http, rid):
    """HTTP clients take a dot out of a path before they send it."""
    answer = await http.post("/v1/requests", json={"text": "a", "rid": rid})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_rid")


async def test_all_requests_are_aborted_at_once(http, way):
    """A caller that waits learns it as any other end."""
    await http.post("/v1/requests", json={"text": "a", "rid": "r1"})
    waiting = asyncio.ensure_future(http.post("/generate", json={"text": "a", "rid": "r2"}))
    for _ in range(400):
        await asyncio.sleep(0.01)
        if len(way.live()) == 2 and way.state("r2") == "queued":
            break

    await http.post("/abort_request", json={"abort_all": True})

    assert (await waiting).status_code == 499
    assert way.live() == []
