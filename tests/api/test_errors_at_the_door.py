"""Errors at the HTTP door: one shape, the right status, nothing of our inside."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException

from api import errors
from api.answers import EndedBadly
from api.intake import ClientGoneError
from api.metrics import Metrics
from forebay.errors import Failed, Problem, Rejected

RAISED = {
    "rejected": Rejected("too_wide", "201 to 1", param="image_data[1]", status=413),
    "failed": Failed("overloaded", "2 are under way", status=503, retry_after_s=7),
    "ended": EndedBadly(Problem("deadline_exceeded", "too late", 504)),
    "ended-by-caller": EndedBadly(Problem("x", "no", 400, "text")),
    "gone": ClientGoneError(),
    "http": HTTPException(418, "teapot", headers={"X-Kind": "tea"}),
    "unforeseen": ZeroDivisionError("/home/secret"),
}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A tiny application whose one route raises what its path says, under the id of a request."""
    app = FastAPI()
    errors.install(app, Metrics())

    @app.get("/raise/{kind}")
    async def fail(request: Request, kind: str) -> None:
        request.state.rid = "r1"
        raise RAISED[kind]

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        yield http


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("rejected", 413, ("invalid_request_error", "too_wide", "201 to 1", "image_data[1]")),
        ("failed", 503, ("server_error", "overloaded", "2 are under way", None)),
        ("ended", 504, ("server_error", "deadline_exceeded", "too late", None)),
        ("ended-by-caller", 400, ("invalid_request_error", "x", "no", "text")),
    ],
)
async def test_what_we_raise_keeps_its_status_and_its_words(http, kind, status, error):
    """And names the request."""
    response = await http.get(f"/raise/{kind}")

    kind, code, message, param = error
    assert response.status_code == status
    assert response.json() == {"error": {"type": kind, "code": code, "message": message, "param": param, "rid": "r1"}}


async def test_a_failure_that_passes_says_when_to_come_again(http):
    """Retry-After where it is known, and only there."""
    assert (await http.get("/raise/failed")).headers["retry-after"] == "7"
    assert "retry-after" not in (await http.get("/raise/ended")).headers


async def test_what_nobody_foresaw_tells_the_caller_nothing_of_its_inside(http, caplog):
    """The log has it, joined by the request id."""
    with caplog.at_level(logging.ERROR):
        response = await http.get("/raise/unforeseen")

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["rid"]) == (500, "internal_error", "r1")
    assert "secret" not in response.text
    (event,) = [record for record in caplog.records if record.name == "api.errors"]
    assert event.rid == "r1"
    assert event.exc_info[0] is ZeroDivisionError


async def test_a_caller_that_has_gone_is_no_error_of_ours(http, caplog):
    """499 to nobody, and not a line in the log."""
    with caplog.at_level(logging.DEBUG, logger="api"):
        response = await http.get("/raise/gone")

    assert (response.status_code, response.content) == (499, b"")
    assert caplog.records == []


async def test_an_unknown_path_and_a_wrong_method_have_the_same_shape(http):
    """And a wrong method learns the right one."""
    missing, wrong = await http.get("/nowhere"), await http.post("/raise/x")

    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert missing.json()["error"]["message"] == "GET /nowhere: Not Found"
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert wrong.headers["allow"] == "GET"


async def test_another_http_error_keeps_its_headers(http):
    """Whatever the framework has to say."""
    response = await http.get("/raise/http")

    assert (response.status_code, response.json()["error"]["code"]) == (418, "http_error")
    assert response.headers["x-kind"] == "tea"
