"""Batches and several answers through the whole API process: order, slots, streams, and leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgpack
import pytest

from forebay.errors import Problem
from handoff.moves import End, Fence
from tests.api.actors import Staff, announce
from tests.api.process import events_of, meanwhile, started, talking_to
from tests.support.ways import WORKER

pytestmark = pytest.mark.service


@pytest.fixture
async def http(settings, client, keys) -> AsyncIterator[httpx.AsyncClient]:
    """A process that is up, with one node that serves one model."""
    announce(client, keys)
    async with started(settings) as app, talking_to(app) as http:
        yield http


def serve(staff: Staff, count: int, *, pieces: bool = False) -> list[str]:
    """Answer so many requests as a worker and an engine do, last come first served; the ids as they were queued."""
    tasks = [staff.next_task() for _ in range(count)]
    for number, (task, body) in reversed(list(enumerate(tasks))):
        staff.way.begin(task.rid, task.token)
        staff.way.park(task.rid)
        staff.way.claim(f"c{number}")
        outputs = [
            {"text": f"{body.prompt.text}{sample}", "completion_tokens": 1, "finish_reason": "stop", "meta": {}}
            for sample in range(body.samples)
        ]
        for sample in range(body.samples if pieces else 0):
            staff.way.emit(task.rid, f"c{number}", sample, msgpack.packb(["…", 1, sample]))
        end = (
            End.of(Problem("broken", "it broke", 500))
            if body.prompt.text == "bad"
            else End.done({"prompt_tokens": 3, "outputs": outputs})
        )
        staff.finish(task.rid, end, f"c{number}")
    return [task.rid for task, _ in tasks]


def texts(answers: list[dict]) -> list[str]:
    return [answer["text"] if "text" in answer else answer["error"]["code"] for answer in answers]


async def test_answers_stand_in_the_order_of_their_prompts(http, staff):
    """Whichever is finished first."""
    body = {"text": ["a", "b", "c"], "rid": "r"}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 3))

    assert response.status_code == 200
    assert texts(response.json()) == ["a0", "b0", "c0"]
    assert [answer["meta_info"]["id"] for answer in response.json()] == ["r_0", "r_1", "r_2"]


async def test_a_batch_of_one_is_answered_with_a_list(http, staff):
    """As it was asked."""
    response = await meanwhile(http.post("/generate", json={"text": ["a"]}), lambda: serve(staff, 1))

    assert texts(response.json()) == ["a0"]


async def test_what_is_wrong_with_one_prompt_is_its_answer(http, staff):
    """A mistake in the body, a bad end; the others are answered, and the call is a success."""
    body = {"text": ["a", "", "bad", "d"], "image_data": [None, None, None, 5]}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 2))

    assert response.status_code == 200
    assert texts(response.json()) == ["a0", "invalid_prompt", "broken", "invalid_media"]
    assert response.json()[1]["error"]["param"] == "text[1]"
    assert len(response.json()[2]["error"]["rid"]) == 32


async def test_a_batch_that_is_wrong_as_a_whole_queues_nothing(http, staff, way):
    """One status for the call, and no request."""
    response = await http.post("/generate", json={"text": ["a", "b"], "image_data": ["x"]})

    assert (response.status_code, response.json()["error"]["code"]) == (400, "length_mismatch")
    assert way.live() == []


async def test_several_answers_of_one_prompt_are_a_list(http, staff):
    """C058: prepared once, answered as often as was asked."""
    body = {"text": "a", "rid": "r", "sampling_params": {"n": 3}}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 1))

    assert texts(response.json()) == ["a0", "a1", "a2"]
    assert {answer["meta_info"]["id"] for answer in response.json()} == {"r"}


async def test_several_answers_of_a_batch_come_in_rounds(http, staff):
    """C058: as SGLang orders them."""
    body = {"text": ["a", "b"], "sampling_params": [{"n": 2}, {"n": 3}]}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 2))

    assert texts(response.json()) == ["a0", "b0", "a1", "b1", "b2"]


async def test_answers_of_a_batch_keep_their_prompts_ids(http, staff):
    """C059: one id for all is numbered by prompt, not by answer."""
    body = {"text": ["a", "b"], "rid": "x", "sampling_params": {"n": 2}}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 2))

    assert [answer["meta_info"]["id"] for answer in response.json()] == ["x_0", "x_1", "x_0", "x_1"]


async def test_a_stream_of_a_batch_says_whose_each_event_is(http, staff):
    """By the index that the answer has in the whole list; a bad prompt's is its error."""
    body = {"text": ["a", "", "c"], "sampling_params": {"n": 2}, "stream": True}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 2, pieces=True))

    *events, mark = events_of(response.text)
    last = {event["index"]: event for event in events}
    assert mark == "[DONE]"
    # The bad prompt wants one answer that it does not get.
    assert [texts([last[index]])[0] for index in sorted(last)] == ["a0", "invalid_prompt", "c0", "a1", "c1"]
    grown = [event["index"] for event in events if "error" not in event and not event["meta_info"]["finish_reason"]]
    assert sorted(grown) == [0, 2, 3, 4]


async def test_a_stream_of_several_answers_numbers_them(http, staff):
    """Each grows by itself."""
    body = {"text": "a", "sampling_params": {"n": 2}, "stream": True}

    response = await meanwhile(http.post("/generate", json=body), lambda: serve(staff, 1, pieces=True))

    *events, _ = events_of(response.text)
    assert [(event["index"], event["text"]) for event in events] == [(0, "…"), (1, "…"), (0, "a0"), (1, "a1")]


async def test_a_caller_that_leaves_cancels_every_request_of_its_batch(http, staff, way):
    """Nothing of it goes on."""
    asking = asyncio.ensure_future(http.post("/generate", json={"text": ["a", "b"], "rid": "r"}))
    for _ in range(400):
        await asyncio.sleep(0.01)
        if len(way.live()) == 2 and all(way.state(rid) == "queued" for rid in ("r_0", "r_1")):
            break

    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    for _ in range(400):  # the caller has gone; the process is still telling Redis
        if all(way.state(rid) == "cancelled" for rid in ("r_0", "r_1")):
            break
        await asyncio.sleep(0.01)

    assert [way.state(rid) for rid in ("r_0", "r_1")] == ["cancelled"] * 2


async def test_a_batch_can_be_described(http, staff):
    """Each prompt's features, or its error."""

    def play() -> None:
        for _ in range(2):
            task, body = staff.next_task()
            begun = staff.way.begin(task.rid, task.token)
            end = End.done({"input_ids": [1], "items": [], "mrope": None, "timings_ms": {}, "of": body.prompt.text})
            assert staff.way.do(staff.way.moves.finish(task.rid, Fence.owner(begun.attempt, WORKER), end)).ok

    response = await meanwhile(http.post("/v1/preprocess", json={"text": ["a", "", "c"]}), play)

    assert [one.get("of") or one["error"]["code"] for one in response.json()] == ["a", "invalid_prompt", "c"]


async def test_a_batch_can_be_sent_and_fetched_later(http, staff, way):
    """One id each."""
    response = await http.post("/v1/requests", json={"text": ["a", ""], "rid": "r", "sampling_params": {"n": 2}})

    first, second = response.json()
    assert response.status_code == 202
    assert (first["rid"], second["error"]["code"]) == ("r_0", "invalid_prompt")
    await asyncio.to_thread(serve, staff, 1)
    told = (await http.get("/v1/requests/r_0")).json()
    assert texts(told["result"]) == ["a0", "a1"]
