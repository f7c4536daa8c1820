"""Reading a record, from either kind of client."""

import pytest

from forebay.errors import Problem
from handoff import record
from handoff.connection import connect_async
from handoff.moves import End, Fence
from tests.support.ways import MODEL, NODE, WORKER

pytestmark = pytest.mark.service


def test_there_is_no_record_of_an_unknown_request(client, keys):
    """Nor of one that has been forgotten."""
    assert record.read(client, keys, "r1") is None


async def test_an_event_loop_reads_the_same_record(way, redis_url, keys):
    """Every field that a finished request has."""
    way.admitted(priority=3)
    way.do(way.moves.finish("r1", Fence.claim("c1"), End.done({"text": "é", "n": 2**53})))
    client = connect_async(redis_url, "test")

    found = await record.read_async(client, keys, "r1")

    assert found == record.read(way.client, keys, "r1")
    assert (found.rid, found.model, found.node, found.lane, found.owner) == ("r1", MODEL, NODE, "text", WORKER)
    assert (found.priority, found.lapses, found.kind) == (3, 0, "generate")
    assert (found.result, found.problem, found.worker_ms) == ({"text": "é", "n": 2**53}, None, {"decode": 1.5})
    assert list(found.times_ms) == ["accepted", "queued", "processing", "parked", "admitted", "end"]
    assert list(found.times_ms.values()) == sorted(found.times_ms.values())
    assert await record.read_async(client, keys, "unknown") is None
    await client.aclose()


def test_a_problem_is_read_back(way):
    """Code, message, status and field."""
    problem = Problem("bad_image", "image_data[1] is damaged", 400, "image_data[1]")
    way.accept()
    way.do(way.moves.finish("r1", Fence.token("t1"), End.of(problem)))

    assert way.record().problem == problem
    assert record.read_problem(b"") is None
