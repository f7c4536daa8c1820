"""Answers on their way back: each event to the caller that waits for it, and no caller left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgpack
import pytest

from api.replies import Ended, Piece, Replies, _entries
from api.tasks import end
from forebay import State
from forebay.errors import Failed, Problem
from handoff.connection import connect_async
from handoff.keys import Keys
from handoff.moves import End
from tests.api.actors import Staff, result
from tests.support.valkey import running_server
from tests.support.ways import Way

pytestmark = pytest.mark.service

SOON_S = 4.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's rounds, a hundred times as often."""
    for name, value in {"MAX_BLOCK_MS": 10, "_KEEP_EVERY_S": 0.01, "_LOOK_UP_EVERY_S": 0.05}.items():
        monkeypatch.setattr(f"api.replies.{name}", value)
    monkeypatch.setattr("api.replies._PAUSE_AFTER_ERROR_S", 0.02)


@asynccontextmanager
async def reading(replies: Replies) -> AsyncIterator[asyncio.Task[None]]:
    """The reader, for the time of the block."""
    task = asyncio.create_task(replies.run())
    try:
        yield task
    finally:
        await end(task)


async def soon(event: Awaitable[object]) -> object:
    return await asyncio.wait_for(event, SOON_S)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(SOON_S):
        while not await holds():  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.005)


def admitted(way: Way, replies: Replies, rid: str = "r1", token: str = "t1", claim: str = "c1") -> None:
    """A request of this process in an engine."""
    way.admitted(rid, token, claim, reply_to=replies.name)


async def test_pieces_and_the_end_reach_the_watch_in_order(replies, way, staff):
    """As they were said, and the end is the last."""
    with replies.watch("r1", "t1") as watch:
        admitted(way, replies)
        staff.say("r1", 0, "a")
        staff.say("r1", 1, "b")
        staff.finish("r1", End.done(result("ab")))
        async with reading(replies):
            events = [event async for event in watch.until_end()]

    assert events == [
        Piece("c1", 0, "a", 1),
        Piece("c1", 1, "b", 1),
        Ended(State.DONE, None, result("ab")),
    ]


async def test_each_caller_gets_its_own_events_only(replies, way, staff):
    """Two requests at a time over one stream."""
    with replies.watch("r1", "t1") as first, replies.watch("r2", "t2") as second:
        admitted(way, replies, "r1", "t1", "c1")
        admitted(way, replies, "r2", "t2", "c2")
        staff.finish("r2", End.of(Problem("x", "no", 400)), "c2")
        staff.finish("r1", End.done(result("one")), "c1")
        async with reading(replies):
            ends = await soon(asyncio.gather(first.end(), second.end()))

    assert [end.state for end in ends] == [State.DONE, State.REJECTED]
    assert ends[0].result["outputs"][0]["text"] == "one"
    assert ends[1].problem == Problem("x", "no", 400)


async def test_an_id_that_is_used_again_does_not_hear_of_its_first_use(replies, way, staff):
    """Events go by the token of the acceptance, not by the id."""
    with replies.watch("r1", "t2") as watch:
        admitted(way, replies, "r1", "t1", "c1")
        staff.finish("r1", End.done(result("first")), "c1")
        admitted(way, replies, "r1", "t2", "c2")
        staff.finish("r1", End.done(result("second")), "c2")
        async with reading(replies):
            end = await soon(watch.end())

    assert end.result["outputs"][0]["text"] == "second"


async def test_an_event_for_nobody_is_dropped(replies, way, staff):
    """Its caller has left; the reader goes on."""
    admitted(way, replies, "gone", "t0", "c0")
    staff.finish("gone", End.done(result()), "c0")

    with replies.watch("r1", "t1") as watch:
        admitted(way, replies)
        staff.finish("r1", End.done(result("ab")))
        async with reading(replies):
            assert (await soon(watch.end())).result["outputs"][0]["text"] == "ab"


async def test_an_end_whose_event_was_lost_is_found_in_the_record(replies, way, staff, client, keys):
    """A trimmed or flushed stream holds nobody up."""
    with replies.watch("r1", "t1") as watch:
        admitted(way, replies)
        staff.finish("r1", End.done(result("found")))
        client.delete(keys.out(replies.name))
        async with reading(replies):
            end = await soon(watch.end())

    assert end == Ended(State.DONE, None, result("found"))


async def test_a_bad_end_is_found_with_its_problem(replies, way, client, keys):
    """As the event would have told it."""
    with replies.watch("r1", "t1") as watch:
        way.queued(reply_to=replies.name)
        way.cancel()
        client.delete(keys.out(replies.name))
        async with reading(replies):
            end = await soon(watch.end())

    assert (end.state, end.problem.code, end.problem.status) == (State.CANCELLED, "cancelled", 499)


async def test_a_live_request_is_left_alone_by_the_look_up(replies, way):
    """Only ends are delivered."""
    with replies.watch("r1", "t1") as watch:
        way.queued(reply_to=replies.name)
        async with reading(replies):
            await asyncio.sleep(0.15)

    assert watch.events.empty()


@pytest.mark.parametrize("token_of_the_record", [None, "another"])
async def test_a_request_that_the_store_forgot_ends_as_lost(replies, way, token_of_the_record):
    """Redis lost its memory, or the id means another request by now: nobody else will ever write the end."""
    if token_of_the_record:
        way.queued("r1", token_of_the_record)

    with replies.watch("r1", "t1") as watch:
        async with reading(replies):
            end = await soon(watch.end())

    assert (end.state, end.problem.code, end.problem.status) == (State.FAILED, "request_lost", 503)


async def test_a_flushed_stream_is_made_anew(replies, way, staff, client, keys):
    """What comes afterwards arrives by itself, from the first entry on."""
    async with reading(replies):
        client.flushall()

        async def is_there() -> bool:
            return bool(client.exists(keys.out(replies.name)))

        await until(is_there)
        with replies.watch("r1", "t1") as watch:
            admitted(way, replies)
            staff.say("r1", 0, "a")
            piece = await soon(watch.events.get())

    assert piece == Piece("c1", 0, "a", 1)


async def test_what_has_been_read_is_dropped_from_the_stream(replies, way, staff, client, keys):
    """A long-lived process keeps no history in Redis, but for the last hundred entries, which go together."""
    stream = keys.out(replies.name)
    admitted(way, replies)
    for number in range(300):
        staff.say("r1", number, "x")
    assert client.xlen(stream) == 301

    async with reading(replies):

        async def is_short() -> bool:
            return client.xlen(stream) <= 100

        await until(is_short)


async def test_the_stream_of_a_dead_process_goes_by_itself(replies, client, keys):
    """Nobody is left to remove it."""
    ttl_ms = client.pttl(keys.out(replies.name))

    assert 0 < ttl_ms <= 60_000


async def test_without_a_stream_nothing_is_written(replies, way, staff, client, keys):
    """When the API process is gone so is its caller: an event must not make a stream that nobody reads."""
    await replies.close()

    admitted(way, replies)
    staff.say("r1", 0, "a")
    staff.finish("r1", End.done(result()))

    assert not client.exists(keys.out(replies.name))


async def test_closing_removes_the_stream(client, redis_url, keys):
    """An orderly stop leaves nothing."""
    replies = Replies(connect_async(redis_url, "test"), keys)
    await replies.open()
    assert client.exists(keys.out(replies.name))

    await replies.close()

    assert not client.exists(keys.out(replies.name))


async def test_waiting_callers_are_counted_while_they_wait(replies):
    """The gauge of the metrics; a caller that fails is not counted for ever."""
    with suppress(ZeroDivisionError), replies.watch("r1", "t1"), replies.watch("r2", "t2"):
        assert replies.waiting == 2
        raise ZeroDivisionError

    assert replies.waiting == 0


async def test_a_redis_that_comes_back_empty_is_read_again(tmp_path: Path, keys: Keys):
    """The reader outlives it, and callers from before learn that their request is lost."""
    with running_server(tmp_path) as url:
        replies = Replies(connect_async(url, "test"), keys)
        await replies.open()
    async with reading(replies) as reader:
        with replies.watch("r1", "t1") as watch:
            await asyncio.sleep(0.1)
            assert not reader.done()
            assert watch.events.empty()
            with running_server(tmp_path):
                end = await soon(watch.end())
                assert end.problem.code == "request_lost"

                async def is_there() -> bool:
                    return bool(await probe.exists(keys.out(replies.name)))

                probe = connect_async(url, "probe")
                await until(is_there)
                await probe.aclose()
    with suppress(Failed):
        await replies.close()


async def test_opening_without_redis_fails_at_once_and_says_so(keys):
    """The process must not come up ready."""
    replies = Replies(connect_async("unix:///nowhere/redis.sock", "test"), keys)

    with pytest.raises(Failed, match="cannot be reached"):
        await replies.open()
    with pytest.raises(Failed):
        await replies.close()


PIECE = {b"event": b"piece"}


@pytest.mark.parametrize(
    "reply",
    [
        [(b"1-0", PIECE), (b"2-0", PIECE)],
        [[(b"1-0", PIECE), (b"2-0", PIECE)]],
        [[(b"1-0", PIECE)], [(b"2-0", PIECE)]],
        [[[b"1-0", PIECE], [b"2-0", PIECE]]],
    ],
)
def test_entries_are_read_in_whichever_shape_the_protocol_gives_them(reply):
    """RESP2 and RESP3 nest them differently."""
    assert list(_entries(reply)) == [("1-0", PIECE), ("2-0", PIECE)]


def test_no_entries_are_no_events():
    """A read that ended empty."""
    assert list(_entries([])) == []


def test_a_piece_is_two_values_on_the_wire():
    """Text and tokens, as the scheduler packs them; the other side of the hand-off is held to the same bytes."""
    assert msgpack.packb(["a", 1, 0]) == b"\x93\xa1a\x01\x00"


def test_the_staff_of_these_tests_speaks_that_wire_form(way: Way, staff: Staff):
    """A piece that nobody waits for is still taken by the record."""
    way.admitted()

    assert staff.say("r1", 0, "a")
