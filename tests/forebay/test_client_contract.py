"""Events, lists and uploads, against a scripted server that answers by their contract.

To be run against the deployment, in tests/system/test_client.py, as soon as the API has these routes.
"""

from __future__ import annotations

import json

import pytest

from forebay.client import Ended, Piece, RequestFailedError, StateReached, UnreachableError, Upload
from tests.support.clients import BOTH, either
from tests.support.scripted import BREAKS, Says, native, refuses, status

EVENTS = "GET /v1/requests/r/events"


@pytest.fixture(params=BOTH)
def client(request, server):
    with either(request.param, server.url, retries=2) as client:
        yield client


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("forebay.client.talk._FIRST_PAUSE_S", 0.01)


def event(number: int, name: str, **told: object) -> str:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(told)}\n\n"


QUEUED = event(1, "state", state="queued", attempt=1, at_ms=5)
ADMITTED = event(2, "state", state="admitted", attempt=1, at_ms=6)
HEL = event(3, "token", index=0, text="Hel", tokens=1, sequence=0)
LO = event(4, "token", index=0, text="lo", tokens=1, sequence=1)
END = event(5, "end", **status("r", "done", "Hello"))


def test_events_tell_states_pieces_and_the_end(client, server):
    """In the order in which they came; comments, and kinds that are not known yet, are passed over."""
    server.on(
        EVENTS, Says(parts=[": hello\n\n", QUEUED + ADMITTED[:20], ADMITTED[20:] + event(9, "new"), HEL, LO, END])
    )

    *events, end = client.events("r")

    assert events == [
        StateReached("1", "queued", 1, 5),
        StateReached("2", "admitted", 1, 6),
        Piece("3", 0, "Hel", 1, 0),
        Piece("4", 0, "lo", 1, 1),
    ]
    assert isinstance(end, Ended)
    assert end.status.answer.text == "Hello"
    assert "last-event-id" not in server.asked[0].headers


def test_events_go_on_behind_the_last_one_when_their_connection_breaks(client, server):
    """Torn in the middle of an event, or ended between two: nothing is missing, and nothing comes twice."""
    server.on(
        EVENTS, Says(parts=[QUEUED, ADMITTED[:9]], breaks=True), Says(parts=[ADMITTED, HEL]), Says(parts=[LO, END])
    )

    assert [one.id for one in client.events("r")] == ["1", "2", "3", "4", "5"]
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "1", "3"]


def test_events_begin_behind_what_is_known(client, server):
    """And are over at once where the end is known: 204."""
    server.on(EVENTS, Says(status=204))

    assert list(client.events("r", after="5")) == []
    assert server.asked[0].headers["last-event-id"] == "5"


def test_connections_that_break_again_and_again_are_an_error(client, server):
    """As often as there are retries without an event between; an event is a new beginning."""
    server.on(EVENTS, *[Says(parts=[one], breaks=True) for one in (QUEUED, ADMITTED, HEL, LO)], Says(parts=[]))
    known = []

    with pytest.raises(UnreachableError):
        known.extend(one.id for one in client.events("r"))

    assert known == ["1", "2", "3", "4"]
    assert len(server.asked) == 4 + 2


def test_events_of_an_unknown_request_are_an_error(client, server):
    """As any other question about it."""
    with pytest.raises(RequestFailedError, match="404 request_not_found"):
        list(client.events("r"))


def test_requests_are_listed_page_by_page(client, server):
    """With the filters on every page, until there is no next one."""
    entry = {"rid": "a", "state": "parked", "model": "m", "kind": "generate", "attempt": 1, "accepted_ms": 3}
    entry |= {"deadline_ms": 4, "node": None}
    pages = [{"data": [entry, entry | {"rid": "b"}], "next": "c1"}, {"data": [entry | {"rid": "c"}], "next": None}]
    server.on("GET /v1/requests", *map(Says, pages))

    listed = list(client.requests(state="parked", model="m"))

    assert [(one.rid, one.state, one.accepted_ms) for one in listed] == [
        ("a", "parked", 3),
        ("b", "parked", 3),
        ("c", "parked", 3),
    ]
    assert [asked.query for asked in server.asked] == [
        {"state": "parked", "model": "m"},
        {"state": "parked", "model": "m", "cursor": "c1"},
    ]


@pytest.mark.parametrize("as_path", [True, False])
def test_an_upload_stands_for_its_bytes(client, server, tmp_path, as_path):
    """Sent once as they are, and named by every later request."""
    (tmp_path / "photo.jpg").write_bytes(b"bytes")
    server.on("POST /v1/media", Says({"id": "sha256:ab", "bytes": 5, "expires_ms": 9}, 201))
    server.on("POST /generate", Says(native("yes")))

    upload = client.upload(tmp_path / "photo.jpg" if as_path else b"bytes")
    client.generate(text="x", images=[upload])

    assert upload == Upload("sha256:ab", 5, 9)
    assert server.asked[0].body == b"bytes"
    assert server.asked[1].json["image_data"] == ["sha256:ab"]


def test_an_upload_can_be_asked_for_and_deleted(client, server):
    """By its id."""
    server.on("HEAD /v1/media/sha256:ab", Says(), Says(status=404))
    server.on("DELETE /v1/media/sha256:ab", Says(status=204))

    assert client.has_upload("sha256:ab")
    client.delete_upload("sha256:ab")
    assert not client.has_upload("sha256:ab")


def test_an_upload_whose_connection_breaks_is_sent_again(client, server):
    """The same bytes have the same id."""
    server.on("POST /v1/media", BREAKS, Says({"id": "sha256:ab", "bytes": 5, "expires_ms": 9}, 201))

    assert client.upload(b"bytes").id == "sha256:ab"


def test_an_upload_that_is_refused_says_why(client, server):
    """With the code of the API."""
    server.on("POST /v1/media", refuses(413, "media_too_large"))

    with pytest.raises(RequestFailedError, match="413 media_too_large"):
        client.upload(b"bytes")


def test_a_place_on_the_queue_is_told(client, server):
    """Of a request that waits; ``None`` of any other."""
    server.on("GET /v1/requests/r", Says(status("r", "queued") | {"position": 3}), Says(status("r", "parked")))

    assert [client.status("r").position, client.status("r").position] == [3, None]
