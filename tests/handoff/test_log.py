"""The log of a request that nobody waits for: all of its way, in order, for as long as its record."""

import msgpack
import pytest

from handoff.log import BEGINNING, Closed, Moved, Said, follow, has_more, is_entry_id
from handoff.moves import LOG, RETENTION_MS, End, Fence
from handoff.record import position_of, read_async
from tests.support.ways import NODE

pytestmark = pytest.mark.service


def piece(text):
    return msgpack.packb([text, 1, 0])


def through(way):
    """A request from its acceptance to its end, with two pieces."""
    way.admitted(reply_to=LOG)
    way.emit(number=0, piece=piece("a"))
    way.emit(number=1, piece=piece(" b"))
    way.do(way.moves.finish("r1", Fence.claim("c1"), End.done({"n": 1})))


async def told(redis, keys, after=BEGINNING):
    return [entry async for entry in follow(redis, keys, "r1", after)]


async def test_the_log_tells_every_state_every_piece_and_the_end(way, redis, keys):
    """In the order in which they came."""
    through(way)

    entries = await told(redis, keys)

    states = [entry.state for entry in entries if isinstance(entry, Moved)]
    assert states == ["accepted", "queued", "processing", "parked", "admitted"]
    said = [(one.sequence, one.text, one.tokens, one.sample) for one in entries if isinstance(one, Said)]
    assert said == [(0, "a", 1, 0), (1, " b", 1, 0)]
    assert isinstance(entries[-1], Closed)
    assert sum(isinstance(entry, Closed) for entry in entries) == 1


async def test_whoever_was_cut_off_goes_on_behind_the_last_entry(way, redis, keys):
    """Nothing twice, nothing left out."""
    through(way)
    entries = await told(redis, keys)

    for number, entry in enumerate(entries[:-1]):
        assert is_entry_id(entry.id)
        assert await told(redis, keys, entry.id) == entries[number + 1 :]
        assert await has_more(redis, keys, "r1", entry.id)
    assert not await has_more(redis, keys, "r1", entries[-1].id)


async def test_a_second_attempt_and_a_lost_lease_are_told(way, redis, keys):
    """So that a follower knows that the answer begins anew."""
    way.admitted(reply_to=LOG)
    way.let_lapse()
    way.do(way.moves.lapse(NODE, "toy"))
    seen = way.record().seen
    way.do(way.moves.replay("r1", seen, 2, NODE, b"again"))
    way.cancel()

    moved = [(one.state, one.attempt) for one in await told(redis, keys) if isinstance(one, Moved)]

    assert moved[-3:] == [("admitted", 1), ("parked", 1), ("queued", 2)]


async def test_a_silent_request_says_so(way, redis, keys):
    """The follower may look whether anybody still listens."""
    way.queued(reply_to=LOG)

    following = follow(redis, keys, "r1")
    entries = [await anext(following) for _ in range(3)]
    await following.aclose()

    assert entries[-1] is None


def test_the_log_goes_with_the_record(way, client, keys):
    """And a new use of the id begins a new one."""
    through(way)
    assert 0 < client.pttl(keys.log("r1")) <= RETENTION_MS

    way.accept("r1", "t2", reply_to=LOG)

    assert client.xlen(keys.log("r1")) == 1
    assert client.ttl(keys.log("r1")) == -1


def test_a_request_that_somebody_waits_for_has_no_log(way, client, keys):
    """Its events go to the process of its caller alone."""
    way.listen()
    way.admitted(reply_to="api-1")

    assert not client.exists(keys.log("r1"))


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "a-b", "1-2-3", "$", "+", "9" * 30 + "-0"])
def test_what_is_no_entry_id(text):
    """Nothing else reaches Redis."""
    assert not is_entry_id(text)


async def test_a_waiting_request_knows_how_many_are_before_it(way, redis, keys):
    """On its queue, and among the parked; nowhere else."""
    for number in range(3):
        way.queued(f"r{number}", f"t{number}")
        way.client.zadd(keys.line(NODE, "text"), {f"r{number}": 1000 + number})

    async def positions():
        return [await position_of(redis, keys, await read_async(redis, keys, f"r{n}")) for n in range(3)]

    assert await positions() == [0, 1, 2]
    way.begin("r0", "t0")
    assert await positions() == [None, 0, 1]
    way.park("r0")
    way.cancel("r1")
    assert await positions() == [0, None, 0]
