"""Whatever a caller sends, what he reads is short: no megabytes of his own names, and never a 500 for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.actors import announce
from tests.api.process import started, talking_to

pytestmark = pytest.mark.service

LONG = "k" * 1_000_000


def nested(depth: int, key: str) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {key: value} if key else [value]
    return value


@pytest.fixture
async def http(settings, client, keys) -> AsyncIterator[httpx.AsyncClient]:
    announce(client, keys)
    async with started(settings) as app, talking_to(app) as http:
        yield http


@pytest.mark.parametrize(
    "body",
    [
        {"text": "a", "multimodal_x": {LONG: 2**70}},
        {"text": "a", f"multimodal_{LONG}": 2**70},
        {"text": ["a", "b"], f"multimodal_{LONG}": [1, 2, 3]},
        {"text": ["a", "b"], "rid": [LONG, LONG]},
        {"text": "a", "rid": LONG},
        {"text": "a", "sampling_params": {LONG: 2**70}},
        {"text": "a", "image_data": {"format": "processor_output", LONG: {LONG: 1}}},
        {"text": "a", "image_data": {LONG: "x"}},
        {"text": "a", "image_data": "!" + LONG},
        {"text": "a", "model": LONG},
        {"text": "a", "mm_hashes": [LONG + "\ud800"]},
        {"text": "a", "multimodal_\ud800": 1},
        {"text": "a", "multimodal_x": {"\ud800": 1}},
        {"text": ["a", "b"], "image_data": nested(480, "url")},
        {"text": ["a", "b"], "image_data": nested(480, "frames")},
        {"text": ["a", "b"], "video_data": {"frames": nested(480, "")}},
        {"text": "a", "image_data": nested(480, "")},
        {"text": "a", "multimodal_x": nested(480, "k")},
        {"text": "a", "sampling_params": nested(480, "k")},
    ],
    ids=lambda body: ascii(json.dumps(body)).replace(LONG, "k…k")[:60],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_is_short(http, body, stream):
    """A 4xx in a thousand characters, or that for each prompt of a batch."""
    response = await http.post("/generate", content=json.dumps({**body, "stream": stream}))

    assert len(response.content) < 1500
    if response.status_code == 200:
        assert isinstance(body["text"], list)
        assert response.text.count('"invalid_request_error"') == 2
    else:
        assert 400 <= response.status_code < 500, response.text
        assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": nested(480, "k")}]},
        {"messages": [{"role": LONG, "content": "x"}]},
        {"messages": [{"role": "user", "content": "x", LONG: 2**70}]},
        {"messages": [{"role": "user", "content": [{"type": LONG}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": nested(480, "url")}]}]},
        {"messages": [{"role": "user", "content": "x"}], "tools": nested(480, "")},
        {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {LONG: 2**70}},
    ],
    ids=lambda body: ascii(json.dumps(body)).replace(LONG, "k…k")[:60],
)
async def test_a_refusal_of_a_conversation_is_short(http, body):
    """Likewise."""
    response = await http.post("/v1/chat/completions", content=json.dumps({"model": "toy", **body}))

    assert 400 <= response.status_code < 500, response.text[:300]
    assert len(response.content) < 1500


async def test_a_path_without_end_is_told_in_short(http):
    """A 404 names what was asked for, as far as anybody would read it."""
    response = await http.get(f"/{LONG[:50_000]}")

    assert response.status_code == 404
    assert len(response.content) < 1500
