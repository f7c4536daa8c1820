"""``GET /v1/requests/{rid}/events`` and the list: what a caller sees that does not wait."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from api.followers import Followers
from api.listing import read_listing
from api.routes.events import Story
from forebay.client import Status
from forebay.errors import Failed, Rejected
from handoff.log import Moved, Said
from handoff.moves import LOG, End
from tests.api.actors import Staff, result
from tests.api.process import meanwhile
from tests.support.ways import MODEL

pytestmark = pytest.mark.service

BODY = {"text": "Hi", "rid": "r1"}
EVENTS = "/v1/requests/r1/events"


def read(text: str) -> list[tuple[str, str, Any]]:
    """Id, kind and data of every event."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["id"], lines["event"], json.loads(lines["data"])))
    return found


async def done(http: httpx.AsyncClient, staff: Staff) -> None:
    """A request that has gone all its way."""
    await http.post("/v1/requests", json=BODY)

    def play() -> None:
        rid = staff.admit_next()
        staff.say(rid, 0, "a")
        staff.say(rid, 0, "a")  # redis-py sends it again
        staff.say(rid, 1, " b")
        staff.finish(rid, End.done(result("a b")))

    await asyncio.to_thread(play)


async def test_a_follower_is_told_states_tokens_and_the_end(http, staff: Staff):
    """A piece that was written twice is told once; the end is what the request's own address tells."""
    await done(http, staff)

    response = await http.get(EVENTS)
    events = read(response.text)

    assert response.headers["content-type"].startswith("text/event-stream")
    states = [data["state"] for _, kind, data in events if kind == "state"]
    assert states == ["accepted", "queued", "processing", "parked", "admitted"]
    assert [data["text"] for _, kind, data in events if kind == "token"] == ["a", " b"]
    assert events[-1][1] == "end"
    assert events[-1][2] == (await http.get("/v1/requests/r1")).json()


async def test_a_follower_sees_what_happens_while_it_follows(http, staff: Staff):
    """From the first state to the end, on one connection."""
    await http.post("/v1/requests", json=BODY)

    response = await meanwhile(http.get(EVENTS), lambda: staff.finish(staff.admit_next(), End.done(result())))

    assert [kind for _, kind, _ in read(response.text)][-1] == "end"


@pytest.mark.parametrize("how", ["header", "query"])
async def test_a_follower_that_was_cut_off_goes_on(http, staff: Staff, how):
    """Behind the last event that it names; when it has seen the end, it is told not to come back."""
    await done(http, staff)
    events = read((await http.get(EVENTS)).text)

    async def again(id_: str) -> httpx.Response:
        if how == "header":
            return await http.get(EVENTS, headers={"Last-Event-ID": id_})
        return await http.get(EVENTS, params={"after": id_})

    assert read((await again(events[2][0])).text) == events[3:]
    assert (await again(events[-1][0])).status_code == 204


async def test_a_request_whose_log_is_gone_still_tells_its_end(http, staff: Staff, client, keys):
    """Redis may have been told to forget; the record is the truth."""
    await done(http, staff)
    client.delete(keys.log("r1"))

    events = read((await http.get(EVENTS)).text)

    assert [kind for _, kind, _ in events] == ["end"]
    assert events[0][2]["state"] == "done"


async def test_a_failed_request_tells_its_error_as_its_end(http, way):
    """Here a cancellation."""
    await http.post("/v1/requests", json=BODY)
    await http.delete("/v1/requests/r1")

    events = read((await http.get(EVENTS)).text)

    assert (events[-1][2]["state"], events[-1][2]["error"]["code"]) == ("cancelled", "cancelled")


async def test_what_cannot_be_followed_says_why(http, way):
    """Unknown, answered elsewhere, or asked for from a place that is none."""
    way.accept("waited-for", reply_to="api-1")
    await http.post("/v1/requests", json=BODY)

    answers = [
        await http.get("/v1/requests/nobody/events"),
        await http.get("/v1/requests/waited-for/events"),
        await http.get(EVENTS, headers={"Last-Event-ID": "$"}),
        await http.get(EVENTS, params={"after": "\u0661-\u0661"}),  # digits, but none of Redis' own
    ]

    told = [(one.status_code, one.json()["error"]["code"]) for one in answers]
    assert told == [(404, "request_not_found"), (409, "no_events"), *[(400, "invalid_request")] * 2]


@pytest.mark.alone
async def test_a_crowd_is_served_as_a_few_are(http, staff: Staff):
    """Many callers that ask at once, and many that follow at once: each gets its answer."""
    asking = [http.post("/v1/requests", json={"text": "Hi", "rid": f"r{number}"}) for number in range(300)]
    assert {one.status_code for one in await asyncio.gather(*asking)} == {202}

    following = [asyncio.ensure_future(http.get(f"/v1/requests/r{number}/events")) for number in range(300)]
    await asyncio.sleep(0.2)
    listing = [http.get("/v1/requests") for _ in range(300)]
    assert {one.status_code for one in await asyncio.gather(*listing)} == {200}
    await http.post("/abort_request", json={"abort_all": True})

    ends = [read(one.text)[-1] for one in await asyncio.gather(*following)]
    assert [(kind, data["state"]) for _, kind, data in ends] == [("end", "cancelled")] * 300


async def test_followers_are_counted(http, app, monkeypatch, staff: Staff):
    """Each keeps a connection to Redis; beyond the limit one is told when to come again."""
    await done(http, staff)
    monkeypatch.setattr("api.followers.MOST", 0)

    response = await http.get(EVENTS)

    assert (response.status_code, response.json()["error"]["code"]) == (503, "too_many_followers")
    monkeypatch.setattr("api.followers.MOST", 1)
    assert [(await http.get(EVENTS)).status_code for _ in range(3)] == [200] * 3
    assert app.state.context.followers.now.total() == 0


async def test_the_followers_of_one_tenant_keep_no_other_out(redis, monkeypatch):
    """Each has its share of the places; where there are no keys, nobody is told from anybody."""
    monkeypatch.setattr("api.followers.MOST_OF_A_TENANT", 1)
    monkeypatch.setattr("api.followers.MOST", 3)
    followers = Followers(redis)

    with followers.one_more("acme"), followers.one_more("other"):
        with pytest.raises(Failed, match="1 callers follow your requests at this process; the limit is 1"):
            followers.one_more("acme").__enter__()
        with followers.one_more(""), pytest.raises(Failed, match="3 callers follow requests at this process"):
            followers.one_more("").__enter__()

    assert followers.now.total() == 0


async def test_a_follower_is_told_why_its_events_end_too_early(http, monkeypatch):
    """As the last event, without an id: it goes on behind the one before."""
    await http.post("/v1/requests", json=BODY)

    async def broken(*_: object) -> None:
        raise Failed("redis_unavailable", "the request store cannot be reached", status=503)

    monkeypatch.setattr("api.routes.events.read_async", broken)

    response = await http.get(EVENTS)

    assert response.status_code == 200
    kind, data = response.text.strip().split("\n")[-2:]
    assert kind == "event: error"
    assert json.loads(data.removeprefix("data: "))["error"]["code"] == "redis_unavailable"


async def test_a_follower_is_not_told_of_another_request_that_has_its_id(http, way, client, keys):
    """The log begins anew with the id; whoever still follows the request before learns that it is lost."""
    await http.post("/v1/requests", json=BODY)
    following = asyncio.ensure_future(http.get(EVENTS))
    await asyncio.sleep(0.1)

    with client.pipeline() as together:  # so that its end is not seen before it is overwritten
        together.hset(keys.record("r1"), "state", "cancelled").delete(keys.log("r1")).execute()
    way.accept("r1", "another", reply_to=LOG)
    text = (await following).text

    assert text.count('"state": "accepted"') <= 1
    assert '"code": "request_lost"' in text
    assert '"state": "done"' not in text


def test_a_new_claim_begins_the_answer_anew():
    """Its pieces are counted from the beginning, and all of them are told."""
    story = Story()
    told = [
        story.tell(entry)
        for entry in (
            Said("1-0", 0, "a", 1, 0),
            Said("2-0", 1, "b", 1, 0),
            Said("3-0", 1, "b", 1, 0),
            Moved("4-0", "admitted", 1),
            Said("5-0", 0, "a", 1, 0),
        )
    ]

    assert [one and one[0] for one in told] == ["token", "token", None, "state", "token"]


async def test_a_plan_can_be_asked_for_as_anything_else(http, staff: Staff):
    """It has a record like every request; the client finds no answer and no features in it."""
    plan = {"prompt_tokens": 3, "items": [], "limits": {}, "timings_ms": {}}
    asking = http.post("/v1/plan", json={"text": "Hi", "rid": "r1"})
    await meanwhile(asking, lambda: staff.describe_next(plan))

    told = (await http.get("/v1/requests/r1")).json()

    assert told["result"] == {"rid": "r1", "model": MODEL, **plan}
    status = Status.of(told)
    assert (status.state, status.answers, status.preparation) == ("done", (), None)


# the list


async def test_the_list_pages_through_what_was_asked_for(http):
    """Newest first; the cursor of one page begins the next."""
    for number in range(5):
        await http.post("/v1/requests", json={"text": "Hi", "rid": f"r{number}"})
        await asyncio.sleep(0.002)  # another millisecond, so that the order is sure
    await http.delete("/v1/requests/r3")

    found, cursor = [], ""
    for _ in range(9):
        page = (await http.get("/v1/requests", params={"limit": "2", "cursor": cursor})).json()
        found += [(one["rid"], one["state"]) for one in page["data"]]
        cursor = page["next"]
        if not cursor:
            break

    assert found == [(f"r{n}", "cancelled" if n == 3 else "queued") for n in (4, 3, 2, 1, 0)]
    live = (await http.get("/v1/requests", params={"state": "live"})).json()["data"]
    assert [one["rid"] for one in live] == ["r4", "r2", "r1", "r0"]
    assert (await http.get("/v1/requests", params={"model": "other"})).json() == {"data": [], "next": None}


async def test_a_queued_request_tells_its_place(http):
    """How many are before it."""
    for number in range(3):
        await http.post("/v1/requests", json={"text": "Hi", "rid": f"r{number}"})
        await asyncio.sleep(0.002)

    positions = [(await http.get(f"/v1/requests/r{number}")).json()["position"] for number in range(3)]

    assert positions == [0, 1, 2]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"state": "gone"}, "state"),
        ({"limit": "0"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "1e2"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "1."}, "cursor"),
        ({"cursor": "1. "}, "cursor"),
        ({"cursor": "\u0661.a"}, "cursor"),
    ],
)
def test_a_page_that_cannot_be_is_refused_by_name(query, param):
    """And nothing of it reaches Redis."""
    with pytest.raises(Rejected) as caught:
        read_listing(query)

    assert caught.value.param == param
