"""Numbers that no strict parser reads, or no message holds: refused, in an answer that every parser reads."""

from __future__ import annotations

import json

import httpx
import pytest

from forebay.task import TaskBody, unseal
from tests.api.actors import SECRET, announce
from tests.api.process import started, talking_to

pytestmark = pytest.mark.service


@pytest.fixture
async def http(settings, client, keys):
    announce(client, keys)
    async with started(settings) as app, talking_to(app) as http:
        yield http


async def send(http: httpx.AsyncClient, rest: str) -> httpx.Response:
    body = f'{{"text": "x", "rid": "r1", {rest}}}'.encode()
    return await http.post("/v1/requests", content=body)


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.parametrize(
    ("rest", "named"),
    [
        ('"multimodal_x": NaN', "NaN"),
        ('"multimodal_x": -Infinity', "-Infinity"),
        ('"multimodal_x": 1e999', "multimodal_x"),
        ('"sampling_params": {"n": NaN}', "NaN"),
        ('"multimodal_x": 18446744073709551616', "multimodal_x"),
        ('"multimodal_x": -9223372036854775809', "multimodal_x"),
        ('"multimodal_x": ' + "9" * 5000, "multimodal_x"),
    ],
)
async def test_a_number_that_cannot_be_carried_is_refused_in_strict_json_and_queues_nothing(http, way, rest, named):
    """C061, C063: never a 500, and the refusal does not echo what could not be written."""
    response = await send(http, rest)

    error = json.loads(response.content, parse_constant=refuse)["error"]
    assert response.status_code == 400
    assert named in error["message"]
    assert way.live() == []


async def test_the_largest_number_reaches_the_worker_exactly(http, way):
    """C063: 64 bits are carried, and not one of them is lost."""
    response = await send(http, '"multimodal_x": 18446744073709551615')

    assert response.status_code == 202
    assert TaskBody.unpack(unseal(way.record("r1").body, SECRET)).extensions == {"multimodal_x": 18446744073709551615}
