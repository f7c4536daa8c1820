"""Media by URL through the API process: fetched once the request is accepted, ended with it, never half there."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from forebay.media import digest_of
from handoff.media import open_store
from handoff.moves import End
from handoff.reel import Reel
from tests.api.actors import Staff, announce, result
from tests.api.callers import Caller
from tests.api.fetch.listeners import Crowd, listening, ok, says, status
from tests.api.process import meanwhile, started, talking_to, until

pytestmark = pytest.mark.service

PICTURE = b"a picture, which nobody looks at here"
SLOW = says(b"", pause_s=60.0)


async def test_a_url_is_fetched_and_the_worker_gets_a_digest(open_to_loopback, client, keys, staff: Staff, settings):
    """Neither the URL nor the bytes reach the queue; order and places are the caller's."""
    announce(client, keys)
    async with listening({"/a": ok(PICTURE), "/b": ok(b"other")}) as there:
        body = {"text": "Hi", "rid": "r1", "image_data": [there.url("/a"), "QUJD", {"url": there.url("/b?key=secret")}]}
        async with started(open_to_loopback(there.port)) as app, talking_to(app) as http:
            there_b = there.paths
            response = await http.post("/v1/requests", json={**body, "image_data": body["image_data"][:2]})

    assert response.status_code == 202
    task, told = staff.next_task("interactive")
    assert [ref.digest for ref in told.media] == [digest_of(PICTURE), digest_of(b"ABC")]
    assert [ref.param for ref in told.media] == ["image_data[0]", "image_data[1]"]
    assert open_store(settings.media, None, None).get(digest_of(PICTURE)) == PICTURE
    assert b"http" not in (task.body or b"")
    assert there_b == ["/a"]
    assert staff.way.account() == (1, len(PICTURE) + 3)


async def test_a_blocked_url_ends_its_request_once(settings, client, keys, way):
    """C079: a 4xx, nothing dialled, nothing queued, and the other media of the request are dropped."""
    announce(client, keys)
    async with listening({"/": ok(PICTURE)}) as there:
        sources = [there.url(), "http://169.254.169.254/latest/"]
        guarded = replace(settings, fetch_ports=(there.port, 80))
        async with started(guarded) as app, talking_to(app) as http:
            response = await http.post("/generate", json={"text": "Hi", "rid": "r1", "image_data": sources})

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "blocked_address")
    assert there.connections == 0
    assert way.messages(lane="interactive") == []
    assert (way.state("r1"), way.live(), way.account()) == ("rejected", [], (0, 0))
    assert not list(open_store(settings.media, None, None).folder.iterdir())


async def test_what_is_fetched_counts_against_the_tenants_bytes(open_to_loopback, client, keys, way):
    """As soon as it is known: a request that goes beyond is not queued, and gives all of it back."""
    announce(client, keys)
    async with listening({"/": ok(bytes(5000))}) as there:
        small = replace(open_to_loopback(there.port), tenant_bytes=4000)
        async with started(small) as app, talking_to(app) as http:
            response = await http.post("/v1/requests", json={"text": "Hi", "rid": "r1", "image_data": there.url()})

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (429, "too_many_bytes")
    assert "5000 bytes" in error["message"]
    assert "4000" in error["message"]
    assert response.headers["Retry-After"] == "1"
    assert (way.state("r1"), way.account(), way.messages(lane="interactive")) == ("rejected", (0, 0), [])


async def test_the_first_item_that_fails_ends_the_others(open_to_loopback, client, keys, way):
    """Nobody waits for what is not wanted any more."""
    announce(client, keys)
    async with listening({"/gone": status(410), "/slow": SLOW}) as there:
        sources = [there.url("/slow"), there.url("/gone")]
        async with started(open_to_loopback(there.port)) as app, talking_to(app) as http:
            async with asyncio.timeout(10):
                response = await http.post("/generate", json={"text": "Hi", "image_data": sources})

    assert (response.status_code, response.json()["error"]["param"]) == (400, "image_data[1]")


async def test_a_batch_with_one_url_that_fails_answers_the_others(open_to_loopback, client, keys, staff: Staff):
    """Its slot holds the error."""
    announce(client, keys)
    async with listening({"/a": ok(PICTURE)}) as there:
        body = {"text": ["one", "two"], "image_data": [there.url("/a"), there.url("/gone")]}
        async with started(open_to_loopback(there.port)) as app, talking_to(app) as http:

            def play() -> None:
                task, _ = staff.next_task("interactive")
                staff.way.begin(task.rid, task.token)
                staff.way.park(task.rid)
                staff.way.claim()
                staff.finish(task.rid, End.done(result("fine")))

            good, bad = (await meanwhile(http.post("/generate", json=body), play)).json()

    assert good["text"] == "fine"
    assert (bad["error"]["code"], bad["error"]["param"]) == ("media_unavailable", "image_data[1]")


@pytest.mark.parametrize("how", ["cancelled", "left", "expired"])
async def test_a_request_can_end_while_its_media_are_fetched(open_to_loopback, client, keys, way, how):
    """C096: whoever cancels it, leaves it, or lets its time pass; nothing is queued afterwards."""
    announce(client, keys)
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(listening({"/": SLOW}))
        app = await stack.enter_async_context(started(open_to_loopback(there.port)))
        async with talking_to(app) as http:
            seconds = 0.5 if how == "expired" else 60
            body = {"text": "Hi", "rid": "r1", "image_data": there.url(), "timeout_s": seconds}
            caller = Caller(app, "/generate", body)
            call = asyncio.ensure_future(caller.call())
            await until(lambda: there.connections and way.live() == ["r1"])
            if how == "cancelled":
                assert (await http.delete("/v1/requests/r1")).status_code == 200
            elif how == "left":
                caller.leave()
            async with asyncio.timeout(10):
                await call

    wanted = {"cancelled": ("cancelled", 499), "left": ("cancelled", None), "expired": ("failed", 504)}[how]
    assert (way.state("r1"), caller.status if how != "left" else None) == wanted
    assert way.messages(lane="interactive") == []
    assert way.live() == []


@pytest.mark.parametrize(("seconds", "state"), [(60, "cancelled"), (0.5, "expired")])
async def test_a_request_that_nobody_waits_for_can_end_while_its_media_are_fetched(
    open_to_loopback, client, keys, way, seconds, state
):
    """C096: the fetch ends with it, and whoever sent it is told how it stands."""
    announce(client, keys)
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(listening({"/": SLOW}))
        app = await stack.enter_async_context(started(open_to_loopback(there.port)))
        async with talking_to(app) as http:
            body = {"text": "Hi", "rid": "r1", "image_data": there.url(), "timeout_s": seconds}
            call = asyncio.ensure_future(http.post("/v1/requests", json=body))
            await until(lambda: there.connections and way.live() == ["r1"])
            if state == "cancelled":
                assert (await http.delete("/v1/requests/r1")).status_code == 200
            async with asyncio.timeout(10):
                answer = await call

    assert (answer.status_code, answer.json().get("state")) == ((202, state) if state == "cancelled" else (504, None))
    assert way.state("r1") == ("cancelled" if state == "cancelled" else "failed")
    assert way.messages(lane="interactive") == []
    assert way.live() == []


async def test_urls_can_be_switched_off(settings, client, keys):
    """Then every one of them is a 400."""
    announce(client, keys)
    async with started(replace(settings, fetch=False)) as app, talking_to(app) as http:
        response = await http.post("/generate", json={"text": "Hi", "image_data": "https://example.org/a.png"})

    assert (response.status_code, response.json()["error"]["code"]) == (400, "unsupported_source")


async def test_files_are_read_below_their_roots_alone(settings, client, keys, staff: Staff, tmp_path):
    """C084: off without a root."""
    announce(client, keys)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.png").write_bytes(PICTURE)
    body = {"text": "Hi", "rid": "r1", "image_data": f"file://{tmp_path}/root/a.png"}
    async with started(settings) as app, talking_to(app) as http:
        off = await http.post("/generate", json=body)
    async with started(replace(settings, file_roots=((tmp_path / "root").resolve(),))) as app, talking_to(app) as http:
        on = await http.post("/v1/requests", json=body)

    assert (off.status_code, off.json()["error"]["code"]) == (400, "unsupported_source")
    assert on.status_code == 202
    assert staff.next_task("interactive")[1].media[0].digest == digest_of(PICTURE)


async def test_what_several_items_name_is_fetched_once(open_to_loopback, client, keys, staff: Staff):
    """Each has its own place all the same, a frame of a list too."""
    announce(client, keys)
    async with listening({"/a": ok(PICTURE)}) as there:
        url = there.url("/a")
        body = {"text": "Hi", "image_data": [url, "QUJD", url], "video_data": {"frames": [url, url]}}
        async with started(open_to_loopback(there.port)) as app, talking_to(app) as http:
            response = await http.post("/v1/requests", json=body)

    assert response.status_code == 202
    _, told = staff.next_task("interactive")
    assert [ref.param for ref in told.media] == ["image_data[0]", "image_data[1]", "image_data[2]", "video_data"]
    assert told.media[0].digest == told.media[2].digest == digest_of(PICTURE)
    assert told.media[3].digest == digest_of(Reel((PICTURE, PICTURE), 2.0).pack())
    assert there.paths == ["/a"]


async def test_frames_that_are_too_much_together_are_refused(open_to_loopback, client, keys):
    """An item's limit is of all its frames, wherever they come from."""
    announce(client, keys)
    limits = {"max_item_bytes": 2 * len(PICTURE)}
    async with listening({"/a": ok(PICTURE), "/b": ok(PICTURE)}) as there:
        frames = [there.url("/a"), there.url("/b"), "QUJD"]
        async with started(open_to_loopback(there.port, **limits)) as app, talking_to(app) as http:
            fetched = await http.post("/generate", json={"text": "Hi", "video_data": {"frames": frames}})
            inline = await http.post("/generate", json={"text": "Hi", "video_data": {"frames": ["QUJD" * 9] * 3}})

    for answer, size in ((fetched, 2 * len(PICTURE) + 3), (inline, 81)):
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "media_too_large")
        expected = f"video_data: its frames are at least {size} bytes; the limit is {2 * len(PICTURE)}"
        assert answer.json()["error"]["message"] == expected


async def test_a_url_for_every_prompt_of_a_batch_is_fetched_once(open_to_loopback, client, keys, staff: Staff):
    """Every prompt has it, and what is at another place of the body is another item."""
    announce(client, keys)
    async with listening({"/a": ok(PICTURE), "/b": ok(b"other")}) as there:
        sent = {"text": ["one", "two", "three"], "image_data": there.url("/a")}
        each = {**sent, "image_data": [there.url("/b")] * 3}
        async with started(open_to_loopback(there.port)) as app, talking_to(app) as http:
            for body in (sent, each):
                assert (await http.post("/v1/requests", json=body)).status_code == 202

    told = [staff.next_task("interactive")[1].media[0].digest for _ in range(6)]
    assert sorted(told) == sorted([digest_of(PICTURE)] * 3 + [digest_of(b"other")] * 3)
    assert sorted(there.paths) == ["/a", "/b", "/b", "/b"]


async def test_a_url_that_is_gone_is_every_prompts_answer(open_to_loopback, client, keys):
    """Asked for once; nobody waits for it again."""
    announce(client, keys)
    async with listening({"/gone": status(410)}) as there:
        body = {"text": ["one", "two"], "image_data": there.url("/gone")}
        async with started(open_to_loopback(there.port)) as app, talking_to(app) as http:
            answers = (await http.post("/generate", json=body)).json()

    assert [answer["error"]["code"] for answer in answers] == ["media_unavailable"] * 2
    assert there.paths == ["/gone"]


async def test_a_url_counts_at_every_place_that_names_it(open_to_loopback, client, keys):
    """A list of frames has a copy of each: a short body must not become gigabytes."""
    announce(client, keys)
    limits = {"max_request_bytes": 10 * len(PICTURE)}
    async with listening({"/a": ok(PICTURE)}) as there:
        lists = [{"frames": [there.url("/a")] * 4}] * 3
        async with started(open_to_loopback(there.port, **limits)) as app, talking_to(app) as http:
            answer = await http.post("/generate", json={"text": "Hi", "video_data": lists})

    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (413, "request_too_large")
    assert f"the limit of a request is {10 * len(PICTURE)}" in error["message"]
    assert there.paths == ["/a"]


async def test_who_has_no_room_for_what_is_shared_does_not_end_the_others(open_to_loopback, client, keys, staff: Staff):
    """Each prompt is charged for itself, whoever began the transfer."""
    announce(client, keys)
    async with listening({"/a": ok(PICTURE)}) as there:
        large, small = "QUJD" * 200, "QUJD"
        body = {"text": ["one", "two"], "image_data": there.url("/a"), "video_data": [large, small], "rid": "r"}
        async with started(open_to_loopback(there.port, max_request_bytes=610)) as app, talking_to(app) as http:
            asking = asyncio.ensure_future(http.post("/generate", json=body))
            _, told = await asyncio.to_thread(staff.next_task, "interactive")
            await http.post("/abort_request", json={"rid": "r_1"})
            answers = (await asking).json()

    assert [ref.digest for ref in told.media] == [digest_of(PICTURE), digest_of(b"ABC")]
    assert [answer["error"]["code"] for answer in answers] == ["request_too_large", "cancelled"]


@pytest.mark.parametrize("how", ["inline", "fetched", "upload"])
async def test_what_only_we_write_is_no_media_file(open_to_loopback, client, keys, how):
    """A list of frames that somebody joined himself would pass by the limits of a list."""
    announce(client, keys)
    reel = Reel((b"a frame",), 2.0).pack()
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(listening({"/a": ok(reel)}))
        app = await stack.enter_async_context(started(open_to_loopback(there.port)))
        http = await stack.enter_async_context(talking_to(app))
        if how == "upload":
            answer = await http.post("/v1/media", content=reel)
        else:
            source = base64.b64encode(reel).decode() if how == "inline" else there.url("/a")
            answer = await http.post("/generate", json={"text": "Hi", "video_data": source})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_media")


@pytest.mark.parametrize("asked", [{}, {"fetch_at_once": 2}])
async def test_so_many_items_are_fetched_at_once_by_a_process(open_to_loopback, client, keys, asked):
    """32 unless it is said, over all its requests."""
    announce(client, keys)
    at_once, crowd = asked.get("fetch_at_once", 32), Crowd(PICTURE)
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(listening({}, default=crowd.answer))
        http = talking_to(await stack.enter_async_context(started(open_to_loopback(there.port, **asked))))
        bodies = [{"text": "Hi", "image_data": [there.url(f"/{n}{m}") for m in range(at_once)]} for n in "ab"]
        posts = [asyncio.ensure_future(http.post("/v1/requests", json=body)) for body in bodies]
        for _ in bodies:
            await crowd.grown_to(at_once)
            await asyncio.sleep(0.05)  # whoever came beyond them would come now
            crowd.leave()
        assert [(await post).status_code for post in posts] == [202, 202]

    assert crowd.most == at_once


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/\ud800", "http://us\udc00er:pw@example.org/", "http://\ud800.example/", "http://[x/", "http://[v1.x]/",
        "http://example.org/\x00", "http://" + "a" * 100_000, "http://example.org/" + "a" * 100_000, "http://\u2100/",
        "file://[x/y", "file:///ROOT/\ud800", "file:///ROOT/%00", "file:///ROOT/\x00", "file:///ROOT/" + "a" * 5000,
        "file:///ROOT/" + "a/" * 50_000, "file://\u2100/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
async def test_any_characters_in_a_url_end_in_a_4xx(settings, client, keys, tmp_path, url, stream):
    """JSON can spell what no URL has; a short answer names the item."""
    announce(client, keys)
    body = {"text": "Hi", "stream": stream, "image_data": url.replace("/ROOT", str(tmp_path.resolve()))}
    async with started(replace(settings, file_roots=(tmp_path.resolve(),))) as app, talking_to(app) as http:
        answer = await http.post("/generate", content=json.dumps(body), headers={"Content-Type": "application/json"})

    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "image_data")
    assert error["code"] in {"invalid_url", "media_unavailable"}
    assert len(answer.content) < 400
