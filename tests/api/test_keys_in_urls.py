"""What a URL holds beside host and path is often a key: it is told to its host, and to nobody else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

import httpx
import pytest

from forebay.logs import set_up
from tests.api.actors import announce
from tests.api.fetch.listeners import listening, ok, says, status
from tests.api.fetch.secrets import AUTHORIZATION, PASSWORD, SIGNATURE, USER, repeated_in, secret_url
from tests.api.process import started, talking_to
from tests.support.overheard import overheard

pytestmark = pytest.mark.service

PICTURE = b"a picture, which nobody looks at here"
SLOW = says(b"", pause_s=60.0)
ODD_HOSTS = ("127.0.0.1:99999", "x", "[x", "[v1.x]", "\u2100", "169.254.169.254")


async def test_keys_in_a_url_are_told_to_its_host_alone(open_to_loopback, client, keys, redis_url, capsys):
    """C080: no log, no answer, no record and no message has a user or a query, however the fetch ends."""
    announce(client, keys)
    signed = f"X-Amz-Signature={SIGNATURE}"
    answers = {
        "/ok": ok(PICTURE), "/moved": status(302, f"Location: /ok?{signed}"), "/gone": status(404), "/silent": SLOW,
        "/broken": says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), "/empty": ok(b""),
        "/large": says(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
        "/coded": ok(b"x", "Content-Encoding: gzip"), "/odd": status(302, "Location: http://[x"),
        "/inside": status(302, f"Location: http://{USER}:{PASSWORD}@10.0.0.1/?{signed}"),
    }  # fmt: skip
    others = [
        f"{scheme}://{USER}:{PASSWORD}@{host}/?{signed}" for scheme in ("http", "ftp", "file") for host in ODD_HOSTS
    ]
    with overheard(redis_url) as said, logging_as_a_process():
        async with AsyncExitStack() as stack:
            there = await stack.enter_async_context(
                listening({f"{path}?{signed}": one for path, one in answers.items()})
            )
            app = await stack.enter_async_context(started(open_to_loopback(there.port, fetch_total_s=1.0)))
            http = await stack.enter_async_context(talking_to(app))
            told = []
            for number, url in enumerate([*(secret_url(there.port, path) for path in answers), *others]):
                sent = {"text": "Hi", "image_data": url, "rid": f"r{number}"}
                told += [await http.post("/v1/requests", json=sent), await http.get(f"/v1/requests/r{number}")]
            told += [await http.get("/v1/requests?limit=100"), await http.get("/metrics")]

    assert [one.status_code for one in told[::2][:3]] == [202, 202, 400]
    assert any(AUTHORIZATION in head for head in there.heads)  # its host has been told
    assert any("accept" in line for line in said)
    for text in (capsys.readouterr().err, "\n".join(said), "\n".join(map(str, all_of(told)))):
        assert text
        assert repeated_in(text) == []


@contextmanager
def logging_as_a_process() -> Iterator[None]:
    """As an API process does that is to say everything."""
    loggers = [logging.getLogger(name) for name in ("", "httpx", "httpcore", "asyncio")]
    levels, handlers = [one.level for one in loggers], loggers[0].handlers[:]
    try:
        set_up("api", "DEBUG")
        yield
    finally:
        loggers[0].handlers[:] = handlers
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def all_of(told: list[httpx.Response]) -> Iterator[object]:
    """What stands in answers."""
    for one in told:
        yield from (one.headers, one.text)
