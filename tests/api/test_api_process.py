"""The whole API process over a real Redis, with worker and scheduler played through the real moves."""

from __future__ import annotations

import asyncio
import base64
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.errors import Failed, Problem
from forebay.media import digest_of
from handoff.media import Spool
from handoff.moves import End
from tests.api.actors import Staff, announce, result
from tests.api.callers import Caller
from tests.api.process import events_of, meanwhile, started, talking_to, until
from tests.support.ways import Way

pytestmark = pytest.mark.service

BODY = {"text": "Hi", "rid": "r1"}


# The way of a request.


async def test_generate_answers_when_the_engine_has_finished(http, staff: Staff):
    """In the native shape, under the caller's id."""

    def play() -> None:
        staff.finish(staff.admit_next(), End.done(result("a b", meta={"p": 0.5})))

    response = await meanwhile(http.post("/generate", json=BODY), play)

    answer = response.json()
    assert response.status_code == 200
    assert answer["text"] == "a b"
    assert answer["meta_info"].pop("e2e_latency") > 0
    assert answer["meta_info"] == {
        "id": "r1",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "finish_reason": {"type": "stop"},
        "engine": {"p": 0.5},
    }


async def test_a_bad_end_is_an_error_with_its_own_status(http, staff: Staff):
    """As it was written, with the id of the request."""

    def play() -> None:
        staff.finish(staff.admit_next(), End.of(Problem("too_wide", "201 to 1", 400, "image_data")))

    response = await meanwhile(http.post("/generate", json=BODY), play)

    assert response.status_code == 400
    assert response.json()["error"] == {
        "type": "invalid_request_error",
        "code": "too_wide",
        "message": "201 to 1",
        "param": "image_data",
        "rid": "r1",
    }


async def test_a_stream_grows_and_ends_with_the_whole_answer(http, staff: Staff):
    """All of the text so far in each event, then the finished answer, then the mark."""

    def play() -> None:
        rid = staff.admit_next()
        assert staff.say(rid, 0, "a")
        assert staff.say(rid, 1, " b")
        staff.finish(rid, End.done(result("a b c", tokens=3)))

    response = await meanwhile(http.post("/generate", json={**BODY, "stream": True}), play)

    *grown, last, mark = events_of(response.text)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert [(event["text"], event["meta_info"]["completion_tokens"]) for event in grown] == [("a", 1), ("a b", 2)]
    assert all(event["meta_info"]["finish_reason"] is None for event in grown)
    assert (last["text"], last["meta_info"]["finish_reason"]) == ("a b c", {"type": "stop"})
    assert mark == "[DONE]"


async def test_a_stream_begins_anew_with_another_scheduler(http, staff: Staff, way: Way):
    """What the dead one said is not repeated, and not kept."""

    def play() -> None:
        rid = staff.admit_next("c1")
        staff.say(rid, 0, "old", "c1")
        way.let_lapse(rid)
        way.do(way.moves.lapse("n1", "toy"))
        assert [one.rid for one in way.claim("c2", "scheduler-2")] == [rid]
        staff.say(rid, 0, "new", "c2")
        staff.finish(rid, End.done(result("new")), "c2")

    response = await meanwhile(http.post("/generate", json={**BODY, "stream": True}), play)

    assert [event["text"] for event in events_of(response.text)[:-1]] == ["old", "new", "new"]


async def test_a_stream_without_pieces_is_its_end_alone(http, staff: Staff):
    """An engine may say everything at once."""

    def play() -> None:
        staff.finish(staff.admit_next(), End.done(result("all")))

    response = await meanwhile(http.post("/generate", json={**BODY, "stream": True}), play)

    assert [event if event == "[DONE]" else event["text"] for event in events_of(response.text)] == ["all", "[DONE]"]


async def test_a_stream_that_fails_before_its_first_token_is_an_ordinary_error(http, staff: Staff):
    """C014: the status is not committed before anything is known; and it is counted like any answer."""

    def play() -> None:
        staff.finish(staff.admit_next(), End.of(Problem("too_wide", "201 to 1", 400)))

    response = await meanwhile(http.post("/generate", json={**BODY, "stream": True}), play)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "too_wide")
    assert 'code="too_wide",model="toy",route="generate",state="rejected"} 1.0' in (await http.get("/metrics")).text


async def test_a_stream_that_fails_later_says_so_in_an_event(http, staff: Staff):
    """The status has gone; the shape of the error is the same."""

    def play() -> None:
        rid = staff.admit_next()
        staff.say(rid, 0, "a")
        staff.finish(rid, End.of(Problem("broken", "it broke", 500)))

    response = await meanwhile(http.post("/generate", json={**BODY, "stream": True}), play)

    piece, error, mark = events_of(response.text)
    assert (piece["text"], error["error"]["code"], error["error"]["rid"], mark) == ("a", "broken", "r1", "[DONE]")


async def test_preprocess_describes_the_features(http, staff: Staff):
    """What the worker wrote, with the time the whole took."""
    described = {"input_ids": [1, 2], "items": [], "mrope": None, "timings_ms": {"process": 1.5}}

    response = await meanwhile(http.post("/v1/preprocess", json=BODY), lambda: staff.describe_next(described))

    answer = response.json()
    assert response.status_code == 200
    assert answer["timings_ms"]["total"] > 0
    assert {**answer, "timings_ms": None} == {**described, "rid": "r1", "model": "toy", "timings_ms": None}


async def test_features_in_base64_come_from_the_store(http, staff: Staff, settings):
    """They never travel through the record; the name they had there is not told."""
    data = b"\x00\x01 features"
    Spool(Path(settings.media.removeprefix("spool:"))).put(digest_of(data), data)
    item = {"feature": {"shape": [2], "stored": digest_of(data)}}

    response = await meanwhile(
        http.post("/v1/preprocess", json={**BODY, "features": "base64"}),
        lambda: staff.describe_next({"items": [item], "timings_ms": {}}),
    )

    (item,) = response.json()["items"]
    assert item == {"feature": {"shape": [2], "base64": base64.b64encode(data).decode()}}


async def test_a_deadline_without_an_end_is_answered_all_the_same(http, monkeypatch, way: Way):
    """Nobody wrote the end: the janitor is down too. The caller is not left waiting."""
    monkeypatch.setattr("api.asking._GRACE_S", 0.0)

    response = await http.post("/generate", json={**BODY, "timeout_s": 0.05})

    assert (response.status_code, response.json()["error"]["code"]) == (504, "no_end")
    assert way.state("r1") == "queued"


# Callers that leave.


@pytest.mark.parametrize("path", ["/generate", "/v1/preprocess"])
async def test_a_caller_that_leaves_while_it_waits_cancels_its_request(app, way: Way, path):
    """C096 (a): its socket is closed, its request ended, nobody waits."""
    caller = Caller(app, path, BODY)
    served = asyncio.create_task(caller.call())
    await until(lambda: way.live() == ["r1"] and way.messages())

    caller.leave()
    await asyncio.wait_for(served, 4)

    assert caller.status == 499
    await until(lambda: way.state("r1") == "cancelled")  # whoever ends our task does not wait for that
    assert app.state.context.replies.waiting == 0


async def test_a_caller_that_leaves_before_the_first_token_of_its_stream_cancels_it(app, way: Way):
    """C096: the wait for the first token is where most leave."""
    caller = Caller(app, "/generate", {**BODY, "stream": True})
    served = asyncio.create_task(caller.call())
    await until(lambda: way.live() == ["r1"] and way.messages())

    caller.leave()
    await asyncio.wait_for(served, 4)

    await until(lambda: way.state("r1") == "cancelled")  # whoever ends our task does not wait for that
    assert app.state.context.replies.waiting == 0


async def test_a_caller_that_leaves_in_the_middle_of_a_stream_cancels_it(app, way: Way, staff: Staff):
    """C096 (c): the engine stops; what was sent was sent."""
    caller = Caller(app, "/generate", {**BODY, "stream": True})
    served = asyncio.create_task(caller.call())
    rid = await asyncio.to_thread(staff.admit_next)
    await asyncio.to_thread(staff.say, rid, 0, "a")
    await until(lambda: caller.text)

    caller.leave()
    await asyncio.wait_for(served, 4)

    assert events_of(caller.text)[0]["text"] == "a"
    await until(lambda: way.state("r1") == "cancelled")  # whoever ends our task does not wait for that
    assert app.state.context.replies.waiting == 0


async def test_a_caller_that_is_found_gone_as_its_stream_begins_cancels_it(app, way: Way, staff: Staff):
    """Between the first token and the response; its request must not be forgotten."""
    caller = Caller(app, "/generate", {**BODY, "stream": True}, leaves_unheard=True)
    served = asyncio.create_task(caller.call())
    rid = await asyncio.to_thread(staff.admit_next)
    await asyncio.to_thread(staff.say, rid, 0, "a")

    await asyncio.wait_for(served, 4)

    await until(lambda: way.state("r1") == "cancelled")  # whoever ends our task does not wait for that
    assert app.state.context.replies.waiting == 0


async def test_a_caller_to_whom_nothing_can_be_sent_cancels_its_request(app, way: Way, staff: Staff, caplog):
    """Not one event was read: the request is left all the same, at once, and it is no error of ours."""
    caller = Caller(app, "/generate", {**BODY, "stream": True}, hangs_up=True)
    served = asyncio.create_task(caller.call())
    rid = await asyncio.to_thread(staff.admit_next)
    await asyncio.to_thread(staff.say, rid, 0, "a")

    await asyncio.wait_for(served, 4)

    await until(lambda: way.state("r1") == "cancelled")  # whoever ends our task does not wait for that
    assert caplog.records == []
    assert app.state.context.replies.waiting == 0


async def test_a_caller_that_leaves_after_the_end_changes_nothing(app, way: Way, staff: Staff):
    """C096 (d): done is done."""
    caller = Caller(app, "/generate", {**BODY, "stream": True})
    served = asyncio.create_task(caller.call())
    rid = await asyncio.to_thread(staff.admit_next)
    await asyncio.to_thread(staff.finish, rid, End.done(result("a")))
    await asyncio.wait_for(served, 4)

    caller.leave()

    assert events_of(caller.text)[-1] == "[DONE]"
    assert way.state("r1") == "done"


# Asynchronous requests.


async def test_a_request_can_be_sent_and_asked_about_later(http, staff: Staff):
    """202 and where to ask; the same answer as a waiting caller would have got."""
    sent = await http.post("/v1/requests", json=BODY)
    assert (sent.status_code, sent.headers["location"]) == (202, "/v1/requests/r1")
    assert sent.json()["state"] == "queued"
    assert (await http.get(sent.headers["location"])).json()["state"] == "queued"

    await asyncio.to_thread(lambda: staff.finish(staff.admit_next(), End.done(result("a b"))))

    told = (await http.get(sent.headers["location"])).json()
    assert (told["state"], told["result"]["text"], told["error"]) == ("done", "a b", None)
    assert list(told["times_ms"]) == ["accepted", "queued", "processing", "parked", "admitted", "end"]


async def test_a_request_can_be_cancelled_and_that_again(http, way: Way):
    """Harmless each time."""
    await http.post("/v1/requests", json=BODY)

    for _ in range(2):
        response = await http.delete("/v1/requests/r1")
        assert (response.status_code, response.json()) == (200, {"rid": "r1", "state": "cancelled"})
    assert (await http.get("/v1/requests/r1")).json()["error"]["code"] == "cancelled"


@pytest.mark.parametrize("rid", ["job/1", "a?b#c", "50%25", "~!$&'()*+,;=:@"])
async def test_every_id_that_is_accepted_can_be_asked_about(http, rid):
    """Also one with the signs that mean something in a URL."""
    sent = await http.post("/v1/requests", json={**BODY, "rid": rid})

    told = await http.get(sent.headers["location"])

    assert told.json()["rid"] == rid
    assert (await http.delete(sent.headers["location"])).json()["state"] == "cancelled"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_request_is_not_found(http, method):
    """Expired or never there: the same answer."""
    response = await http.request(method, "/v1/requests/nobody")

    assert (response.status_code, response.json()["error"]["code"]) == (404, "request_not_found")
    assert response.json()["error"]["rid"] == "nobody"


# The process itself.


async def test_a_refused_body_is_told_in_the_shape_of_every_error(http):
    """A strict parser reads it, though the body could not be answered in kind."""
    response = await http.post("/generate", content=b'{"text": "a", "multimodal_x": NaN}')

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["rid"]) == (400, "invalid_json", None)
    assert set(error) == {"type", "code", "message", "param", "rid"}


async def test_the_limits_of_the_settings_hold(client, keys, settings):
    """Bodies, live requests; each refusal says when or what."""
    announce(client, keys)
    async with started(replace(settings, max_body_bytes=40, max_live=1)) as app, talking_to(app) as http:
        large = await http.post("/generate", json={"text": "x" * 40})
        first = await http.post("/v1/requests", json={"text": "a"})
        second = await http.post("/v1/requests", json={"text": "a"})

    assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")
    assert first.status_code == 202
    assert (second.status_code, second.json()["error"]["code"]) == (503, "overloaded")
    assert second.headers["retry-after"] == "1"


async def test_ready_means_that_work_could_be_done_now(client, keys, settings):
    """Not before a worker is up, and not while the process stops; alive all the time."""
    async with started(settings) as app, talking_to(app) as http:
        idle = await http.get("/ready")
        announce(client, keys)
        app.state.context.register._read_at = float("-inf")  # a second has passed
        ready = await http.get("/ready")
        app.state.draining = True
        stopping = await http.get("/ready")
        assert (await http.get("/health")).json() == {"status": "ok"}

    assert (idle.status_code, idle.json()) == (503, {"status": "not ready", "reason": "no worker is up"})
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "models": ["toy"]})
    assert (stopping.status_code, stopping.json()["reason"]) == (503, "the process is stopping")


async def test_models_and_processors_are_listed_with_where_they_run(http, client, keys, app):
    """What a node offers, and which models have an engine."""
    announce(client, keys, "n2", models=("mute", "toy"), engines=())
    app.state.context.register._read_at = float("-inf")

    models = (await http.get("/v1/models")).json()
    processors = (await http.get("/v1/processors")).json()["data"]

    assert models["object"] == "list"
    assert [(model["id"], model["engine"]) for model in models["data"]] == [("mute", False), ("toy", True)]
    assert sorted((one["node"], one["name"]) for one in processors) == [("n1", "toy"), ("n2", "mute"), ("n2", "toy")]
    assert processors[0]["fingerprint"] == "f" * 16
    assert processors[0]["modalities"] == {"image": 4}


async def test_metrics_are_served_in_prometheus_own_type(http):
    """Every series carries a value that a scraper reads."""
    response = await http.get("/metrics")

    assert response.headers["content-type"].startswith("text/plain; version=")
    assert "forebay_live_requests 0.0" in response.text


async def test_the_routes_are_described(http):
    """Bodies are read by hand and described all the same."""
    paths = (await http.get("/openapi.json")).json()["paths"]

    assert set(paths) >= {"/generate", "/v1/preprocess", "/v1/requests", "/v1/requests/{rid}", "/ready", "/metrics"}
    for path in ("/generate", "/v1/preprocess", "/v1/requests"):
        content = paths[path]["post"]["requestBody"]["content"]["application/json"]
        assert set(content["schema"]["properties"]) >= {"text", "input_ids", "image_data", "sampling_params"}
        assert content["examples"]


async def test_a_process_that_stops_leaves_no_stream(client, keys, settings):
    """Its name goes with it."""
    async with started(settings) as app:
        stream = keys.out(app.state.context.replies.name)
        assert client.exists(stream)

    assert not client.exists(stream)


async def test_a_process_without_redis_does_not_come_up(settings):
    """It says so at the start, instead of failing every request."""
    with pytest.raises(Failed, match="cannot be reached"):
        async with started(replace(settings, redis_url="unix:///nowhere/redis.sock")):
            pass


async def test_a_process_says_that_it_is_ready_when_it_is(client, settings, tmp_path, monkeypatch):
    """Over the launcher's socket, once its stream is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        async with started(settings):
            assert supervisor.recv(100) == b"READY=1"
