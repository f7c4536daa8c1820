"""Fetching, from real listeners on loopback: what comes, whose fault it is when nothing does, and for how long."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from api.fetch.hop import Timeouts
from forebay.errors import Failed, Rejected
from tests.api.fetch.kit import LIMIT, fetching
from tests.api.fetch.listeners import Crowd, listening, ok, says, status

PICTURE = bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses between tries, shorter."""
    monkeypatch.setattr("api.fetch.fetcher._PAUSES_S", (0.01, 0.02))


async def test_an_item_is_fetched_whole():
    """And what it took is charged."""
    async with listening({"/a.png?x=1": ok(PICTURE)}) as there, fetching(there.port) as kit:
        assert await kit.fetch(there.url("/a.png?x=1#part")) == PICTURE

    assert kit.budget.taken == len(PICTURE)
    [head] = there.heads
    assert f"Host: 127.0.0.1:{there.port}" in head
    assert "Accept-Encoding: identity" in head


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_a_compressed_answer_is_decoded_and_counted_decoded(encoding, pack):
    """Some servers send nothing else, though nobody asked for it."""
    answer = ok(pack(PICTURE), f"Content-Encoding: {encoding}")
    async with listening({"/": answer}) as there, fetching(there.port) as kit:
        assert await kit.fetch(there.url()) == PICTURE

    assert kit.budget.taken == len(PICTURE)


async def test_a_user_in_the_url_is_sent_and_not_repeated():
    """As basic authentication; the refusal names host and path."""
    async with listening({}, default=status(403)) as there, fetching(there.port) as kit:
        with pytest.raises(Rejected) as caught:
            await kit.fetch(f"http://user:secret@127.0.0.1:{there.port}/?token=secret")

    assert "Authorization: Basic dXNlcjpzZWNyZXQ=" in there.heads[0]
    assert "secret" not in caught.value.message
    assert f"http://127.0.0.1:{there.port}/ answered 403" in caught.value.message


# whose fault it is


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 451])
async def test_what_is_not_there_is_the_callers_mistake(code):
    """C080: a 400 at once, without another try."""
    async with listening({"/": status(code)}) as there, fetching(there.port) as kit:
        with pytest.raises(Rejected, match=f"answered {code}") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("media_unavailable", 400)
    assert there.connections == 1


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503])
async def test_trouble_over_there_may_pass(code):
    """C080: tried again, and good when it is; nothing is charged twice."""
    async with listening({"/": [status(code), ok(PICTURE)]}) as there, fetching(there.port) as kit:
        assert await kit.fetch(there.url()) == PICTURE

    assert kit.budget.taken == len(PICTURE)


@pytest.mark.parametrize("code", [408, 429, 503])
async def test_trouble_that_does_not_pass_is_a_502(code):
    """C080: after three tries."""
    async with listening({"/": status(code)}) as there, fetching(there.port) as kit:
        with pytest.raises(Failed, match=f"it answered {code}") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("media_fetch_failed", 502)
    assert len(there.paths) == 3


async def test_nobody_there_and_unknown_hosts_are_502s():
    """C080: a refused connection, a name without an address."""
    async with listening({}) as there:
        pass  # its port is free again
    async with fetching(there.port) as kit:
        for url in (there.url(), f"http://nowhere.example:{there.port}/"):
            with pytest.raises(Failed) as caught:
                await kit.fetch(url)
            assert (caught.value.code, caught.value.status) == ("media_fetch_failed", 502)

    assert kit.looked_up == ["nowhere.example"] * 3


@pytest.mark.parametrize(
    "answer",
    [
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + PICTURE[:100]),
        says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"),
        says(b"not http at all\r\n\r\n"),
        says(b""),
        ok(gzip.compress(PICTURE)[:-9], "Content-Encoding: gzip"),
    ],
)
async def test_an_answer_that_is_cut_off_is_trouble_over_there(answer):
    """C081: tried again, then a 502; never a truncated picture."""
    async with listening({"/": answer}) as there, fetching(there.port) as kit:
        with pytest.raises(Failed) as caught:
            await kit.fetch(there.url())
        assert caught.value.code == "media_fetch_failed"
        assert len(there.paths) == 3
        assert kit.budget.taken == 0


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        (["Content-Encoding: br"], "encoded as 'br'"),
        (["Content-Encoding: gzip, gzip"], "encoded 2 times over"),
        (["Content-Encoding: gzip", "Content-Encoding: gzip"], "encoded 2 times over"),
    ],
)
async def test_an_encoding_that_nobody_asked_for_is_a_502_at_once(headers, told):
    """It would be the same again."""
    twice = gzip.compress(gzip.compress(PICTURE))
    async with listening({"/": ok(twice, *headers)}) as there, fetching(there.port) as kit:
        with pytest.raises(Failed, match=told):
            await kit.fetch(there.url())

    assert there.connections == 1


# how much


@pytest.mark.parametrize("coding", ["", "Content-Encoding: gzip\r\n"])
async def test_too_much_is_refused_by_its_header(coding):
    """C081: at once, though not a byte of the body ever comes: none can have been read."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n{coding}\r\n".encode()
    silent = says(head, b"", pause_s=60.0)
    async with listening({"/": silent}) as there, fetching(there.port, timeouts=Timeouts(2.0, 30.0)) as kit:
        with pytest.raises(Rejected, match=f"the limit is {LIMIT}") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("media_too_large", 413)
    assert there.connections == 1
    assert kit.budget.taken == 0


async def test_too_much_with_the_other_items_is_refused_by_its_header():
    """C081: the one that goes beyond a request's limit is not begun either."""
    silent = says(f"HTTP/1.1 200 OK\r\nContent-Length: {LIMIT}\r\n\r\n".encode(), b"", pause_s=60.0)
    async with listening({"/": silent}) as there, fetching(there.port, timeouts=Timeouts(2.0, 30.0)) as kit:
        kit.budget.limit, kit.budget.taken = LIMIT, 1
        with pytest.raises(Rejected, match=f"{LIMIT} bytes after 1 of other items") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("request_too_large", 413)
    assert kit.budget.taken == 1


async def test_a_length_that_is_none_is_trouble_over_there():
    """C081: more digits than any length has; what it announces is not HTTP."""
    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n")
    async with listening({"/": answer}) as there, fetching(there.port) as kit:
        with pytest.raises(Failed, match="no HTTP") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("media_fetch_failed", 502)
    assert kit.budget.taken == 0


async def test_reading_stops_at_the_limit():
    """C081: a body without end is not read to its end."""
    piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
    sent = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[piece] * 10_000]
    async with listening({"/": says(*sent)}) as there, fetching(there.port) as kit:
        with pytest.raises(Rejected, match=f"the limit is {LIMIT}") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("media_too_large", 413)
    assert kit.budget.taken == 0


async def test_a_bomb_is_stopped_at_the_limit():
    """A kilobyte that would become a gigabyte never does."""
    bomb = gzip.compress(bytes(200_000_000), 9)
    async with listening({"/": ok(bomb, "Content-Encoding: gzip")}) as there, fetching(there.port) as kit:
        with pytest.raises(Rejected) as caught:
            await kit.fetch(there.url())

    assert caught.value.code == "media_too_large"
    assert int(caught.value.message.split("at least ")[1].split(" ")[0]) < LIMIT + (256 << 10) + 1


async def test_the_items_of_a_request_share_its_budget():
    """The one that goes beyond it is named, with the numbers."""
    async with listening({"/": ok(PICTURE)}) as there, fetching(there.port) as kit:
        kit.budget.limit = 2 * len(PICTURE) - 1
        await kit.fetch(there.url())
        with pytest.raises(Rejected, match=f"after {len(PICTURE)} of other items") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("request_too_large", 413)
    assert kit.budget.taken == len(PICTURE)


# how long


@pytest.mark.parametrize(
    "answer",
    [
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"x"] * 1000, pause_s=0.05),
        says(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"", pause_s=60.0),
        says(b"", pause_s=60.0),
    ],
)
async def test_a_slow_server_is_given_up(answer):
    """C083: a byte now and then, nothing behind the header, or nothing at all: a 504 with the seconds."""
    began = time.monotonic()
    async with listening({"/": answer}) as there, fetching(there.port, total_s=0.5) as kit:
        with pytest.raises(Failed, match=r"longer than 0\.5 s") as caught:
            await kit.fetch(there.url())

    assert (caught.value.code, caught.value.status) == ("media_fetch_timeout", 504)
    assert time.monotonic() - began < 5
    assert kit.budget.taken == 0


async def test_a_server_that_goes_silent_is_tried_again():
    """C083: a pause of its own has a limit of its own, below that of the whole."""
    silent = says(b"", pause_s=60.0)
    timeouts = Timeouts(connect_s=1.0, read_s=0.1)
    async with listening({"/": [silent, ok(PICTURE)]}) as there, fetching(there.port, timeouts=timeouts) as kit:
        assert await kit.fetch(there.url()) == PICTURE


async def test_a_host_that_takes_no_connection_is_given_up_three_times():
    """C083: connecting has a limit of its own, below that of the whole and beside that of reading."""
    with full_listener() as port:
        async with fetching(port, timeouts=Timeouts(connect_s=0.1, read_s=30.0), total_s=30.0) as kit:
            with pytest.raises(Failed, match="took too long to answer") as caught:
                await kit.fetch(f"http://127.0.0.1:{port}/", left_s=6.0)

    assert (caught.value.code, caught.value.status) == ("media_fetch_timeout", 504)


async def test_the_next_address_is_dialled_when_the_first_takes_no_connection():
    """C083: a host of which a part is down."""
    async with listening({"/": ok(PICTURE)}) as there:
        with full_listener("127.0.0.9", there.port):
            names, timeouts = {"pictures.example": [["127.0.0.9", "127.0.0.1"]]}, Timeouts(connect_s=0.1, read_s=30.0)
            async with fetching(there.port, names=names, timeouts=timeouts, total_s=30.0) as kit:
                assert await kit.fetch(there.url(host="pictures.example"), left_s=6.0) == PICTURE


@contextmanager
def full_listener(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A port that answers no connection any more: its queue is full, and nobody takes from it."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind((host, port))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):  # the queue holds one more than it says; those above it wait as the fetch will
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield port


async def test_a_read_that_has_no_end_is_given_up_three_times():
    """C083: a pause longer than one may be, every time."""
    silent = says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"x", pause_s=60.0)
    timeouts = Timeouts(connect_s=30.0, read_s=0.1)
    async with listening({"/": silent}) as there, fetching(there.port, timeouts=timeouts, total_s=30.0) as kit:
        with pytest.raises(Failed, match="took too long to answer") as caught:
            await kit.fetch(there.url(), left_s=6.0)

    assert (caught.value.code, caught.value.status) == ("media_fetch_timeout", 504)
    assert there.connections == 3
    assert kit.budget.taken == 0


async def test_a_request_that_has_no_time_left_fetches_no_longer():
    """Its deadline ends the fetch, before the fetch's own limit does."""
    async with listening({"/": says(b"", pause_s=60.0)}) as there, fetching(there.port) as kit:
        with pytest.raises(Failed, match=r"longer than 0\.2 s"):
            await kit.fetch(there.url(), left_s=0.2)


async def test_slow_servers_hold_up_nobody_else_for_ever():
    """C083: permits come back when their fetch is given up."""
    answers = {"/slow": says(b"", pause_s=60.0), "/quick": ok(PICTURE)}
    async with listening(answers) as there, fetching(there.port, total_s=0.5) as kit:
        slow = [asyncio.ensure_future(kit.fetch(there.url("/slow"))) for _ in range(40)]
        await asyncio.gather(*slow, return_exceptions=True)

        assert await kit.fetch(there.url("/quick")) == PICTURE
    assert all(isinstance(one.exception(), Failed) for one in slow)


async def test_no_more_items_are_fetched_at_once_than_there_are_permits():
    """A permit is held until the body is there, and as many fetches wait as there are others."""
    crowd = Crowd(PICTURE)
    async with listening({"/": crowd.answer}) as there, fetching(there.port, at_once=3) as kit:
        fetches = [asyncio.ensure_future(kit.fetch(there.url())) for _ in range(9)]
        for left in (9, 6, 3):
            await crowd.grown_to(min(left, 3))
            await asyncio.sleep(0.05)  # whoever came beyond them would come now
            crowd.leave()
        assert [len(data) for data in await asyncio.gather(*fetches)] == [len(PICTURE)] * 9

    assert crowd.most == 3
