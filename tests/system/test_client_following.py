"""Both clients with the routes that do not wait: events, lists, uploads and places in line, on a real deployment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from forebay.client import Client, Ended, Piece, RequestFailedError, StateReached
from tests.support import media
from tests.support.clients import BOTH, either
from tests.support.deployment import Deployment

pytestmark = pytest.mark.system

PHOTOS, SPEECH, QWEN = "efficientnet-lite0", "whisper-tiny-en", "qwen2-vl"
FOX = "The quick brown fox jumps over the lazy dog."


@pytest.fixture(params=BOTH)
def client(request: pytest.FixtureRequest, deployment: Deployment) -> Iterator[Any]:
    with either(request.param, deployment.url) as client:
        yield client


@contextmanager
def workers_asleep(deployment: Deployment) -> Iterator[None]:
    """For the time of the block whatever is sent stays in line."""
    children = deployment.pids_of("worker")[1:]
    for child in children:
        os.kill(child, signal.SIGSTOP)
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGCONT)


def test_events_tell_states_pieces_and_the_end(client):
    """In the order in which they came; the end is what the request's own address tells."""
    submitted = client.submit(model=SPEECH, text="transcribe", audio=[media.fox_recording()])

    *events, end = client.events(submitted.rid)

    states = [one.state for one in events if isinstance(one, StateReached)]
    assert states == ["accepted", "queued", "processing", "parked", "admitted"]
    pieces = [one for one in events if isinstance(one, Piece)]
    assert [one.sequence for one in pieces] == list(range(len(pieces)))
    assert "".join(one.text for one in pieces) == FOX
    assert isinstance(end, Ended)
    assert end.status == client.status(submitted.rid)
    assert end.status.answer.text == FOX


def test_events_begin_behind_what_is_known(client):
    """And are over at once where the end is known."""
    rid = client.submit(model=QWEN, text="Hi", sampling_params={"max_new_tokens": 2}).rid
    events = list(client.events(rid))

    assert list(client.events(rid, after=events[1].id)) == events[2:]
    assert list(client.events(rid, after=events[-1].id)) == []


def test_a_bad_end_is_told_with_its_error(client):
    """The iterator itself ends well: the request did not."""
    rid = client.submit(model=PHOTOS, text="x", images=[b"no picture"]).rid

    *_, end = client.events(rid)

    assert (end.status.state, end.status.error.code) == ("rejected", "unsupported_image")


@pytest.mark.parametrize(("kind", "expected"), [("unknown", "404 request_not_found"), ("waited for", "409 no_events")])
def test_what_cannot_be_followed_is_an_error(client, kind, expected):
    """An id that nobody has; a request that is answered on its own connection."""
    rid = "nobody"
    if kind == "waited for":
        rid = client.generate(model=QWEN, text="Hi", sampling_params={"max_new_tokens": 1}).rid

    with pytest.raises(RequestFailedError, match=expected):
        list(client.events(rid))


def test_requests_are_listed_page_by_page(client, deployment: Deployment, api: Client):
    """Newest first, each once, with the filters on every page; here more than one page has room for."""
    with workers_asleep(deployment):
        sent = [client.submit(model=QWEN, text="Hi").rid for _ in range(60)]

        listed = list(client.requests(state="queued", model=QWEN))

        assert [one.rid for one in listed] == sent[::-1]
        assert {(one.state, one.model, one.kind, one.attempt) for one in listed} == {("queued", QWEN, "generate", 1)}
        assert all(one.accepted_ms < one.deadline_ms for one in listed)
        assert list(client.requests(state="queued", model=PHOTOS)) == []
        for rid in sent:
            assert api.cancel(rid) == "cancelled"
    assert [one.rid for one in client.requests(state="cancelled", model=QWEN)][:60] == sent[::-1]


def test_a_place_in_line_is_told(client, deployment: Deployment):
    """Of a request that waits; ``None`` of any other."""
    with workers_asleep(deployment):
        first, second = (client.submit(model=QWEN, text="Hi").rid for _ in range(2))

        places = [client.status(rid).position for rid in (first, second)]
        client.cancel(first)
        later = [client.status(rid).position for rid in (first, second)]
        client.cancel(second)

    assert places[1] == places[0] + 1
    assert later == [None, places[0]]


@pytest.mark.parametrize("as_path", [True, False])
def test_an_upload_stands_for_its_bytes(client, as_path):
    """Sent once as they are, and named by every later request."""
    path = media.coffee()

    upload = client.upload(path if as_path else path.read_bytes())

    assert (upload.id[:7], upload.size_bytes) == ("sha256:", path.stat().st_size)
    assert client.generate(model=PHOTOS, text="x", images=[upload]).text == "espresso"
    assert client.preprocess(model=PHOTOS, text="x", images=[upload]).items[0].digest == upload.id


def test_an_upload_can_be_asked_for_and_deleted(client):
    """By its id; afterwards no request can name it."""
    upload = client.upload(b"bytes that nobody else sends")

    assert client.has_upload(upload.id)
    client.delete_upload(upload.id)
    assert not client.has_upload(upload.id)
    with pytest.raises(RequestFailedError, match="404 media_not_found"):
        client.generate(model=PHOTOS, text="x", images=[upload])


def test_an_upload_that_is_refused_says_why(client):
    """With the code of the API."""
    with pytest.raises(RequestFailedError, match="400 empty_media"):
        client.upload(b"")
