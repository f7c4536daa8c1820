"""What a connection may send before anybody knows whose it is."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import uvicorn

from api.wire import MOST_HEAD_BYTES, LastWord

OK = b"HTTP/1.1 204 "
REFUSED = b"HTTP/1.1 400 "
LONG = b"x" * (2 * MOST_HEAD_BYTES)


async def application(scope, receive, send):
    """Reads all of a request, and answers that it has."""
    while (await receive()).get("more_body"):
        pass
    assert b"trailer" not in dict(scope["headers"])
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.fixture
async def server() -> AsyncIterator[uvicorn.Server]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, http=LastWord, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with asyncio.timeout(5):
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
    server.config.port = listening.getsockname()[1]
    yield server
    server.should_exit = True
    await serving


@pytest.fixture
def port(server: uvicorn.Server) -> int:
    return server.config.port


async def say(port: int, *parts: bytes, answers: int = 1) -> bytes:
    """Send parts one after another, as far as they are taken; what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        async with asyncio.timeout(5):
            while said.count(b"\r\n\r\n") < answers and (more := await reader.read(1000)):
                said += more
    except ConnectionError:
        pass
    writer.close()
    return said


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", *[LONG] * 8],
        [b"GET / HTTP/1.1\r\nHost: x\r\n", *[b"X: y\r\n" * 10_000] * 8],
        [b"GET /", *[LONG] * 8],
    ],
    ids=["one header", "many headers", "path"],
)
async def test_a_head_without_end_is_refused(port, parts):
    """However it grows; it is not kept in memory until somebody thinks better of it."""
    said = await say(port, *parts)

    assert said == b"" or said.startswith(REFUSED)  # the refusal may be lost to what still came


@pytest.mark.parametrize(
    ("parts", "answers"),
    [
        ([b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"y" * 60_000, b"\r\n\r\n"], 1),
        ([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(LONG), LONG], 1),
        (
            [
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(LONG),
                LONG + b"GET / HTTP/1.1\r\nHo",
                b"st: x\r\n\r\n",
            ],
            2,
        ),
        ([b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTrailer: x\r\n\r\n"], 1),
    ],
    ids=["a long head", "a body", "a head behind a body", "trailers"],
)
async def test_everything_else_is_read_as_ever(port, parts, answers):
    """A body has bounds of its own; a trailer means nothing."""
    assert (await say(port, *parts, answers=answers)).count(OK) == answers


@pytest.mark.parametrize("part", [b"NO HTTP\r\n\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"])
async def test_what_is_no_http_is_told_so_in_the_shape_of_every_error(port, part):
    """With an id, as every response has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(part)
    async with asyncio.timeout(5):
        said = await reader.read()
    writer.close()

    head, _, body = said.partition(b"\r\n\r\n")
    assert said.startswith(REFUSED)
    assert re.search(rb"\r\nx-request-id: [0-9a-f]{32}(\r\n|$)", head)
    error = json.loads(body)["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_http", None)
    assert error["message"]


async def test_a_connection_that_has_just_come_is_answered_though_the_server_stops(server, port):
    """Its request is on the way: a restart behind a shared socket breaks no call."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.05)  # it is taken, and silent

    server.should_exit = True
    await asyncio.sleep(0.2)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(5):
        said = await reader.read()  # to the end: the connection is closed behind the answer
    writer.close()

    assert said.startswith(OK)
    assert b"connection: close" in said.lower()


async def test_a_silent_connection_does_not_hold_up_the_stop(server, port, monkeypatch):
    """A moment is enough for what is on its way."""
    monkeypatch.setattr("api.wire.LAST_WORD_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(0.05)

    server.should_exit = True

    async with asyncio.timeout(5):
        assert await reader.read() == b""
    writer.close()


def test_an_api_process_may_hold_as_many_connections_as_the_system_lets_it():
    """Shells hand 1024 files on, and every caller who waits has one."""
    program = """
import resource
from api.command import _allow_connections

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
_allow_connections()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, most)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr
