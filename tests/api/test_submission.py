"""A checked request on its way in: record, media, task; and what is left of one that does not get there."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from api.answers import EndedBadly
from api.app import make_fetcher
from api.incoming import Incoming, Source
from api.register import Register
from api.replies import Replies
from api.settings import ApiSettings
from api.submission import Submission
from api.uploads import Uploads
from forebay import Failed, Modality, Prompt, Rejected
from forebay.errors import Problem
from forebay.media import digest_of
from forebay.task import Kind, MediaRef, unseal
from handoff.media import MediaStore, RedisStore, Spool
from handoff.moves import End
from tests.api.actors import SECRET, Staff, announce, result, task_in

pytestmark = pytest.mark.service

PICTURE = b"not looked at here"
IN_BASE64 = "bm90IGxvb2tlZCBhdCBoZXJl"
TEXT = Incoming(Prompt(text="Hi"), ())
WITH_PICTURE = Incoming(Prompt(ids=(7,)), (Source(Modality.IMAGE, IN_BASE64, "image_data[0]"),))


@pytest.fixture
def store(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "media")


@pytest.fixture
def submission(settings, redis, moves, keys, store, replies) -> Submission:
    """One API process' way in. No node is announced yet."""
    uploads, fetcher = Uploads(redis, keys, store), make_fetcher(settings)
    return Submission(settings, redis, moves, uploads, fetcher, replies, Register(redis, keys))


def over(submission: Submission, store: MediaStore) -> Submission:
    """The same, over another media store."""
    return replace(submission, uploads=replace(submission.uploads, store=store))


@pytest.fixture
def announced(client, keys) -> None:
    announce(client, keys)


def another(submission: Submission, **changes: object) -> Submission:
    """A second API process, or one with other settings."""
    known = {name: getattr(submission.settings, name) for name in ("secret", "redis_url", "deployment", "media")}
    settings = ApiSettings(**{**known, **changes})
    register = Register(submission.redis, submission.register.keys)
    return replace(submission, settings=settings, register=register)


async def test_a_request_has_a_record_and_a_message_in_the_same_step(submission, announced, way):
    """Queued, with the deadline of the settings, on the lane of its media, signed for the workers."""
    submitted = await submission.submit(TEXT, Kind.GENERATE)

    record = way.record(submitted.rid)
    (entry,) = way.messages(lane="text")
    task = task_in(entry)
    assert (record.state, record.attempt, record.node, record.lane, record.model) == ("queued", 1, "n1", "text", "toy")
    assert record.deadline_ms == record.times_ms["accepted"] + submission.settings.timeout_ms == submitted.deadline_ms
    assert (task.rid, task.token, task.attempt, task.deadline_ms) == (record.rid, record.token, 1, record.deadline_ms)
    assert task.body == unseal(record.body, SECRET)
    assert way.live() == [submitted.rid]


async def test_the_task_carries_what_the_caller_sent(submission, announced, staff, way):
    """Prompt, references, hashes, extensions, sampling, priority, time: everything but bytes."""
    incoming = replace(
        WITH_PICTURE,
        caller_hashes=("ff",),
        extensions={"multimodal_x": [2**64 - 1, None]},
        sampling={"max_new_tokens": 3},
        rid="r1",
        model="toy",
        priority=7,
        timeout_ms=5_000,
        features="none",
    )

    await submission.submit(incoming, Kind.PREPROCESS)

    task, body = staff.next_task("interactive")
    record = way.record("r1")
    assert (task.rid, task.model, task.priority, record.priority) == ("r1", "toy", 7, 7)
    assert record.deadline_ms - record.times_ms["accepted"] == 5_000
    assert (body.kind, body.prompt, body.features) == (Kind.PREPROCESS, Prompt(ids=(7,)), "none")
    assert body.media == (MediaRef(Modality.IMAGE, digest_of(PICTURE), len(PICTURE), "image_data[0]"),)
    assert (body.caller_hashes, body.sampling) == (("ff",), {"max_new_tokens": 3})
    assert body.extensions == {"multimodal_x": [2**64 - 1, None]}


async def test_an_operator_sees_no_payload_in_the_queue(submission, announced, way):
    """C101: what Flower shows of a task holds ids, counts and sizes."""
    await submission.submit(replace(WITH_PICTURE, rid="r1"), Kind.GENERATE)

    (entry,) = way.messages(lane="interactive")
    headers = json.loads(entry)["headers"]
    assert (headers["shadow"], headers["argsrepr"]) == ("preprocess[toy]", "rid=r1 attempt=1 items=1 media=1KiB")
    assert IN_BASE64.encode() not in entry


async def test_media_lie_in_the_store_under_their_digest(submission, announced, store):
    """Before the message is on its queue, once for all who send the same."""
    await submission.submit(WITH_PICTURE, Kind.GENERATE)
    await submission.submit(WITH_PICTURE, Kind.GENERATE)

    assert store.get(digest_of(PICTURE)) == PICTURE
    assert len(list(store.folder.iterdir())) == 1


async def test_media_can_travel_through_redis(submission, announced, client, keys):
    """Where API and workers share no file system."""
    store = RedisStore(client, keys)

    await over(submission, store).submit(WITH_PICTURE, Kind.GENERATE)

    assert store.get(digest_of(PICTURE)) == PICTURE


async def test_an_extension_map_too_large_for_a_message_stays_in_the_record(submission, announced, staff):
    """The message names the request; the worker fetches the body with its claim."""
    large = {"multimodal_x": "x" * 20_000}

    await submission.submit(replace(TEXT, rid="r1", extensions=large), Kind.GENERATE)

    task, body = staff.next_task()
    assert task.body is None
    assert body.extensions == large


async def test_only_a_watched_request_has_somebody_to_answer_to(submission, announced, replies, way):
    """An asynchronous one keeps a log for whoever follows it."""
    submitted = await submission.submit(TEXT, Kind.GENERATE)
    assert way.record(submitted.rid).has_log

    async with submission.watched(TEXT, Kind.GENERATE) as (submitted, watch):
        assert way.raw(submitted.rid)["reply"] == replies.name.encode()
        assert (watch.rid, watch.token) == (submitted.rid, submitted.token)


async def test_a_request_without_an_id_gets_one_of_its_own(submission, announced):
    """32 hexadecimal digits, as in the original."""
    rids = {(await submission.submit(TEXT, Kind.GENERATE)).rid for _ in range(3)}

    assert len(rids) == 3
    assert all(len(rid) == 32 and int(rid, 16) >= 0 for rid in rids)


# What is refused, and leaves nothing.


async def test_an_id_that_is_running_is_refused_and_its_first_use_is_unharmed(submission, announced, way):
    """C067: 409, naming the state; reusable after the end."""
    named = replace(TEXT, rid="r1")
    first = await submission.submit(named, Kind.GENERATE)

    with pytest.raises(Rejected, match="'r1' is already queued") as caught:
        await submission.submit(named, Kind.GENERATE)

    assert (caught.value.code, caught.value.status, caught.value.param) == ("duplicate_rid", 409, "rid")
    assert way.record("r1").token == first.token
    assert len(way.messages()) == 1

    await submission.cancel("r1")
    assert (await submission.submit(named, Kind.GENERATE)).token != first.token


async def test_of_two_processes_that_accept_the_same_id_one_does(submission, announced, way):
    """C067: the check is one step in Redis."""
    named = replace(TEXT, rid="r1")
    processes = [submission, another(submission)] * 5

    outcomes = await asyncio.gather(*(one.submit(named, Kind.GENERATE) for one in processes), return_exceptions=True)

    assert sum(not isinstance(one, Exception) for one in outcomes) == 1
    assert {one.code for one in outcomes if isinstance(one, Exception)} == {"duplicate_rid"}
    assert len(way.messages()) == 1


async def test_a_full_deployment_refuses_with_a_time_to_come_again(submission, announced, way):
    """503 with both numbers; nothing is stored or queued."""
    full = another(submission, max_live=1)
    await full.submit(TEXT, Kind.GENERATE)

    with pytest.raises(Failed, match="1 requests are under way; the limit is 1") as caught:
        await full.submit(replace(WITH_PICTURE, rid="r2"), Kind.GENERATE)

    assert (caught.value.code, caught.value.status, caught.value.retry_after_s) == ("overloaded", 503, 1)
    assert "r2" not in way.live()
    assert not list(submission.uploads.store.folder.iterdir())


@pytest.mark.parametrize(
    ("incoming", "kind", "code", "status"),
    [
        (replace(TEXT, model="nobody"), Kind.GENERATE, "model_not_found", 404),
        (replace(TEXT, model="mute"), Kind.GENERATE, "no_engine", 409),
        (TEXT, Kind.GENERATE, "model_required", 400),
        (replace(WITH_PICTURE, model="toy", sources=(Source(Modality.IMAGE, "!", "image_data"),)), Kind.GENERATE,
         "invalid_base64", 400),
        (replace(WITH_PICTURE, model="toy", sources=(Source(Modality.IMAGE, "", "image_data"),)), Kind.GENERATE,
         "empty_media", 400),
    ],
)  # fmt: skip
async def test_what_is_refused_leaves_no_record(submission, client, keys, way, incoming, kind, code, status):
    """Refused before anything is written; the good item beside a bad one is not stored either."""
    announce(client, keys, models=("toy", "mute"))
    beside = (Source(Modality.IMAGE, IN_BASE64, "image_data[9]"), *incoming.sources) if incoming.sources else ()

    with pytest.raises(Rejected) as caught:
        await submission.submit(replace(incoming, sources=beside), kind)

    assert (caught.value.code, caught.value.status) == (code, status)
    assert way.live() == []
    assert client.keys(f"{keys.records}*") == []
    assert not list(submission.uploads.store.folder.iterdir())


async def test_an_item_above_the_limit_is_refused_with_both_numbers(submission, announced):
    """The limit of the settings."""
    small = another(submission, max_item_bytes=10)

    with pytest.raises(Rejected, match=r"image_data\[0\] is 18 bytes; the limit is 10") as caught:
        await small.submit(WITH_PICTURE, Kind.GENERATE)

    assert caught.value.status == 413


async def test_without_a_worker_a_request_is_refused_at_once(submission, way):
    """503 and when to come again, instead of a request that waits for its deadline."""
    with pytest.raises(Failed, match="no worker is up") as caught:
        await submission.submit(TEXT, Kind.GENERATE)

    assert (caught.value.status, caught.value.retry_after_s) == (503, 5)
    assert way.live() == []


async def test_preprocessing_needs_no_engine(submission, client, keys):
    """Features are made where nobody runs the model."""
    announce(client, keys, engines=())

    assert (await submission.submit(TEXT, Kind.PREPROCESS)).model == "toy"


# What fails on the way.


async def test_media_that_cannot_be_stored_end_the_request_as_failed(submission, announced, way, store):
    """The record exists by then, and must not wait for its deadline."""
    shutil.rmtree(store.folder)

    with pytest.raises(Failed, match="the media store cannot take 18 bytes") as caught:
        await submission.submit(replace(WITH_PICTURE, rid="r1"), Kind.GENERATE)

    record = way.record("r1")
    assert (caught.value.code, caught.value.status) == ("media_store_full", 503)
    assert (record.state, record.problem.code) == ("failed", "media_store_full")
    assert (way.live(), way.messages(lane="interactive")) == ([], [])


async def test_a_rejection_while_it_is_stored_ends_the_request_as_rejected(submission, announced, way, store):
    """Whose fault it is, is in the state."""

    class Picky(Spool):
        def put(self, digest: str, data: bytes) -> None:
            raise Rejected("ugly", "image_data[0] is ugly")

    with pytest.raises(Rejected, match="ugly"):
        await over(submission, Picky(store.folder)).submit(replace(WITH_PICTURE, rid="r1"), Kind.GENERATE)

    assert (way.state("r1"), way.record("r1").problem.code) == ("rejected", "ugly")


async def test_a_request_that_is_cancelled_before_it_is_queued_has_its_end(submission, announced, way, store):
    """It is not queued, and its caller learns of the end like of any other."""

    class Slow(Spool):
        def put(self, digest: str, data: bytes) -> None:
            assert way.cancel("r1") == "accepted"

    slow = over(submission, Slow(store.folder))
    async with slow.watched(replace(WITH_PICTURE, rid="r1"), Kind.GENERATE):
        assert way.state("r1") == "cancelled"

    assert way.messages(lane="interactive") == []


async def test_a_record_that_vanished_before_it_was_queued_is_a_failure(submission, announced, client, store):
    """Redis lost its memory in between; the caller may try again."""

    class Flushing(Spool):
        def put(self, digest: str, data: bytes) -> None:
            client.flushall()

    with pytest.raises(Failed, match="could not be queued") as caught:
        await over(submission, Flushing(store.folder)).submit(WITH_PICTURE, Kind.GENERATE)

    assert (caught.value.status, caught.value.retry_after_s) == (503, 1)


# Leaving.


async def test_a_caller_that_leaves_cancels_its_request(submission, announced, way, replies):
    """C096: nobody computes an answer that nobody will read; by the time the route has ended it is cancelled."""
    queued = asyncio.Event()

    async def wait() -> None:
        async with submission.watched(replace(TEXT, rid="r1"), Kind.GENERATE) as (_, watch):
            queued.set()
            await watch.end()

    route = asyncio.create_task(wait())
    await queued.wait()
    route.cancel()
    with pytest.raises(asyncio.CancelledError):
        await route

    assert way.state("r1") == "cancelled"
    assert (way.live(), replies.waiting) == ([], 0)


async def test_an_answer_leaves_its_request_alone(submission, announced, way, replies):
    """The usual way out."""
    async with submission.watched(replace(TEXT, rid="r1"), Kind.GENERATE):
        pass

    assert way.state("r1") == "queued"
    assert replies.waiting == 0


@pytest.mark.parametrize("error", [EndedBadly(Problem("x", "no", 400)), Failed("no_end", "the deadline passed")])
async def test_an_error_after_it_was_queued_does_not_end_a_request(submission, announced, way, error):
    """It has an owner by then, who ends it."""
    with pytest.raises(type(error)):
        async with submission.watched(replace(TEXT, rid="r1"), Kind.GENERATE):
            raise error

    assert way.state("r1") == "queued"


async def test_cancelling_twice_or_nothing_is_harmless(submission, announced):
    """The state before, each time."""
    await submission.submit(replace(TEXT, rid="r1"), Kind.GENERATE)

    assert await submission.cancel("r1") == "queued"
    assert await submission.cancel("r1") == "cancelled"
    assert await submission.cancel("unknown") == ""


async def test_a_done_request_is_not_cancelled(submission, announced, way, staff: Staff, replies: Replies):
    """Exactly one end is written."""
    await submission.submit(replace(TEXT, rid="r1"), Kind.GENERATE)
    staff.admit_next()
    staff.finish("r1", End.done(result()))

    assert await submission.cancel("r1") == "done"
    assert way.state("r1") == "done"
