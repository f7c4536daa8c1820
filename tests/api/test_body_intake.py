"""Reading a body off the wire, and noticing that its sender has gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import Request

from api.intake import ClientGoneError, read_body, unless_gone
from api.tasks import end
from forebay import Rejected

LEFT = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def request(*messages: dict[str, Any], **headers: str) -> Request:
    """A request whose caller sends these messages and then is silent."""
    waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    for message in messages:
        waiting.put_nowait(message)
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw}, waiting.get)


@pytest.mark.parametrize(
    "kind", [None, "application/json", "application/json; charset=utf-8", "Application/JSON", " application/json ;x"]
)
async def test_json_is_taken_by_its_type_or_without_one(kind):
    """The original takes a body that names none."""
    headers = {} if kind is None else {"content_type": kind}

    assert await read_body(request(part(b"{}", more=False), **headers), 10) == b"{}"


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/jsonl", "", "x" * 500])
async def test_another_type_is_refused_before_anything_is_read(kind):
    """415, with what was named, not endlessly."""
    with pytest.raises(Rejected, match="content-type must be application/json") as caught:
        await read_body(request(content_type=kind), 10)

    assert (caught.value.status, caught.value.code) == (415, "unsupported_content_type")
    assert len(caught.value.message) < 120


async def test_a_body_in_parts_is_put_together():
    """The limit itself passes."""
    parts = [part(b"abc", more=True), part(b"", more=True), part(b"defg", more=False)]

    assert await read_body(request(*parts), 7) == b"abcdefg"


async def test_a_body_that_announces_too_much_is_refused_before_it_is_read():
    """C081: 413 with both numbers; nothing was received."""
    with pytest.raises(Rejected, match="at least 11 bytes; the limit is 10") as caught:
        await read_body(request(content_length="11"), 10)

    assert (caught.value.status, caught.value.code) == (413, "body_too_large")


@pytest.mark.parametrize("announced", ["5", "-1", "many"])
async def test_a_body_that_lied_about_its_length_is_cut_off_at_the_limit(announced):
    """C081: reading stops one part beyond it, though the sender goes on."""
    parts = [part(b"12345678", more=True), part(b"12345678", more=True)]

    with pytest.raises(Rejected, match="at least 16 bytes; the limit is 10"):
        await read_body(request(*parts, content_length=announced), 10)


async def test_a_caller_that_leaves_while_sending_is_gone():
    """Half a body is no body."""
    with pytest.raises(ClientGoneError):
        await read_body(request(part(b"{", more=True), LEFT), 10)


async def test_work_that_ends_first_gives_its_result():
    """And nobody listens to the caller any more."""
    before = asyncio.all_tasks()

    assert await unless_gone(request(), asyncio.sleep(0, "done")) == "done"
    assert asyncio.all_tasks() == before


async def test_work_that_fails_fails():
    """In its own words."""

    async def fail() -> None:
        raise Rejected("x", "no")

    with pytest.raises(Rejected, match="no"):
        await unless_gone(request(), fail())


async def test_work_is_cancelled_when_the_caller_leaves():
    """And has ended by the time that is known: what it held is given back."""
    undone = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            undone.append("given back")

    with pytest.raises(ClientGoneError):
        await unless_gone(request(part(b"", more=False), LEFT), work())

    assert undone == ["given back"]


async def test_a_caller_that_leaves_with_the_work_done_gets_the_result():
    """Done is done."""
    result = asyncio.get_running_loop().create_future()
    result.set_result("done")

    assert await unless_gone(request(LEFT), result) == "done"


async def test_work_ends_with_the_process_that_does_it():
    """A server that stops cancels the route, and the route its work."""
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    route = asyncio.create_task(unless_gone(request(), work()))
    await asyncio.sleep(0.01)
    route.cancel()

    with pytest.raises(asyncio.CancelledError):
        await route
    assert ended.is_set()


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again(monkeypatch):
    """Before Python 3.12 a Redis command that has just been sent does that; a process must stop all the same."""
    monkeypatch.setattr("api.tasks._ASK_AGAIN_S", 0.01)
    cancelled = 0

    async def stubborn() -> None:
        nonlocal cancelled
        for _ in range(3):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled += 1
        raise ZeroDivisionError

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)

    await end(task)

    assert cancelled == 3
    assert isinstance(task.exception(), ZeroDivisionError)


async def test_ending_what_has_ended_changes_nothing():
    """Also what was never more than a future."""
    done = asyncio.get_running_loop().create_future()
    done.set_result("kept")

    await end(done)

    assert done.result() == "kept"
