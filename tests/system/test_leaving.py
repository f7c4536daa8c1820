"""Callers that leave at any moment: before, while and after their request is worked on."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from forebay.client import encode
from tests.support import media
from tests.support.deployment import Deployment
from tests.system.test_main_job import QUESTION, pool_blocks

pytestmark = pytest.mark.system

CALLERS, LONGEST_STAY_S, SETTLED_WITHIN_S = 100, 2.0, 60


async def visit(http: httpx.AsyncClient, number: int, stay_s: float) -> str:
    """Ask about a picture of one's own, and leave after a while, heard or not."""
    picture = media.plain_png(400, 300, (number, 100, 0))
    body = {"model": "qwen2-vl", "text": QUESTION, "image_data": encode(picture), "rid": f"visit-{number}"}
    body["sampling_params"] = {"max_new_tokens": 16}
    try:
        async with asyncio.timeout(stay_s):
            return str((await http.post("/generate", json=body)).status_code)
    except TimeoutError:  # and the connection is closed
        return "left"


async def status_of(http: httpx.AsyncClient, number: int) -> dict[str, Any]:
    response = await http.get(f"/v1/requests/visit-{number}")
    return response.json() if response.status_code == 200 else {"state": "never accepted"}


async def settled(http: httpx.AsyncClient) -> list[str]:
    """The states, once none of them can change any more."""
    give_up_at = time.monotonic() + SETTLED_WITHIN_S
    while True:
        statuses = [await status_of(http, number) for number in range(CALLERS)]
        others = [one for one in statuses if one["state"] not in ("done", "cancelled", "never accepted")]
        if not others:
            return [one["state"] for one in statuses]
        assert time.monotonic() < give_up_at, json.dumps(others)[:2000]
        await asyncio.sleep(0.1)


@pytest.fixture
async def http(deployment: Deployment) -> AsyncIterator[httpx.AsyncClient]:
    """A connection for every caller."""
    limits = httpx.Limits(max_connections=CALLERS, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=deployment.url, timeout=None, limits=limits) as http:
        yield http


async def test_a_hundred_callers_that_leave_at_any_moment_leave_nothing(http: httpx.AsyncClient):
    """C096: every request ends, nothing of it stays, and who stayed was answered; the next one is, too."""
    stays = [random.Random(number).uniform(0.001, LONGEST_STAY_S) for number in range(CALLERS)]

    outcomes = await asyncio.gather(*(visit(http, number, stay) for number, stay in enumerate(stays)))

    states = await settled(http)
    assert set(outcomes) <= {"200", "left"}
    assert {state for state, told in zip(states, outcomes, strict=True) if told == "200"} <= {"done"}
    assert "cancelled" in states
    assert await visit(http, CALLERS, 60) == "200"
    assert await asyncio.to_thread(pool_blocks, str(http.base_url).rstrip("/")) == 0


async def test_what_has_ended_or_never_was_is_cancelled_the_same_each_time(http: httpx.AsyncClient):
    """C096: done is done, and an unknown request is not found."""
    assert await visit(http, CALLERS + 1, 60) == "200"

    answers = [await http.delete(f"/v1/requests/{rid}") for rid in [f"visit-{CALLERS + 1}", "never-sent"] * 2]

    assert [answer.status_code for answer in answers] == [200, 404] * 2
    assert answers[0].json() == answers[2].json() == {"rid": f"visit-{CALLERS + 1}", "state": "done"}
