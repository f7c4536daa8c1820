"""The same requests for Forebay and for SGLang over HTTP: the same answer, or a difference that is intended."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.differences import Row, Why, ids
from tests.api.observed import ROWS as READ
from tests.support.deployment import Deployment
from tests.system.observed import ANSWER, GRID_A, MARK, ROWS, A

pytestmark = pytest.mark.system

ELSEWHERE = {Why.DUPLICATE_RID, Why.RETRY_AFTER}  # tests/api/test_observed_refusals.py, where nobody takes a request


def told(answer: Any) -> Any:
    """What one answer says: grids, that it is one, or whose fault it is that there is none."""
    if isinstance(answer, list):
        return [told(one) for one in answer]
    if "error" in answer:
        return 400 if answer["error"]["type"] == "invalid_request_error" else 500
    if "items" in answer:
        return [item["model_specific_data"]["image_grid_thw"] for item in answer["items"]]
    return ANSWER if "text" in answer or "choices" in answer else answer


def answer(response: httpx.Response) -> Any:
    if response.status_code != 200:
        return response.status_code
    return told(response.json()) if response.content else "nothing"


@pytest.fixture(scope="module")
def http(deployment: Deployment):
    with httpx.Client(base_url=deployment.url, timeout=60) as http:
        yield http


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_a_request_is_answered_as_sglang_answers_it_or_otherwise_on_purpose(http: httpx.Client, row: Row):
    """A difference that nobody has named is a fault; and one that is named is still one."""
    sent = {"content": row.body} if isinstance(row.body, bytes) else {"json": row.body}

    assert row.is_sound
    assert answer(http.post(row.path, **sent)) == row.expected


def test_the_door_is_sglangs_but_for_one_status(http: httpx.Client):
    """JSON by its type or without one, and by no other method; another type is a 415, where the original says 400."""
    body = f'{{"model": "qwen2-vl", "text": "{MARK}", "image_data": "{A}"}}'.encode()
    path = "/v1/preprocess"

    assert answer(http.post(path, content=body)) == [GRID_A]
    assert answer(http.post(path, content=body, headers={"Content-Type": "application/json"})) == [GRID_A]
    assert answer(http.post(path, content=body, headers={"Content-Type": "text/plain"})) == 415
    assert answer(http.get("/generate")) == 405


def test_an_answer_bears_the_callers_own_id(http: httpx.Client):
    """Alone, and numbered in a batch."""
    body = {"model": "qwen2-vl", "sampling_params": {"max_new_tokens": 1}}

    alone = http.post("/generate", json={**body, "text": "x", "rid": "seen"}).json()
    both = http.post("/generate", json={**body, "text": ["x", "y"], "rid": "seen"}).json()

    assert [one["meta_info"]["id"] for one in (alone, *both)] == ["seen", "seen_0", "seen_1"]


def test_every_intended_difference_is_shown():
    """One that no body brings about any more is none."""
    assert {row.why for row in [*READ, *ROWS] if row.why} | ELSEWHERE == set(Why)
