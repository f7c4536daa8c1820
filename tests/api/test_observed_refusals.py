"""What SGLang was observed to do with an id that is in flight and with a full queue, and what Forebay does instead."""

from __future__ import annotations

import httpx
import pytest

from api.settings import ApiSettings
from tests.api.actors import SECRET, announce
from tests.api.differences import Row, Why
from tests.api.process import started, talking_to

pytestmark = pytest.mark.service

# The two statuses, and whether the second says when to come again. The original has no route that does not wait;
# its answer to what it takes stands here as the 202 that this one gives.
TWICE = Row("an id in flight", [{"text": "x", "rid": "r"}] * 2, (202, 202, False), (202, 409, False), Why.DUPLICATE_RID)
FULL = Row("a full queue", [{"text": "x"}] * 2, (202, 503, False), (202, 503, True), Why.RETRY_AFTER)


@pytest.fixture
async def http(settings, client, keys):
    """A process that takes one request, which nobody works on."""
    known = {name: getattr(settings, name) for name in ("redis_url", "deployment", "media")}
    announce(client, keys)
    async with started(ApiSettings(secret=SECRET, **known, max_live=1)) as app, talking_to(app) as http:
        yield http


@pytest.mark.parametrize("row", [TWICE, FULL], ids=["an id in flight", "a full queue"])
async def test_the_second_request_is_refused_otherwise_on_purpose(http: httpx.AsyncClient, row: Row):
    """The original serves both under ids of its own, or refuses without a time to come again."""
    first, second = [await http.post("/v1/requests", json=body) for body in row.body]

    assert row.is_sound
    assert (first.status_code, second.status_code, "Retry-After" in second.headers) == row.expected
