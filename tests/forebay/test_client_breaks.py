"""What a client of events and uploads does when its connection breaks, against a scripted server.

What a real one can be made to do is in tests/system/test_client_following.py.
"""

from __future__ import annotations

import json

import pytest

from forebay.client import Ended, Piece, StateReached, UnreachableError
from tests.support.clients import BOTH, either
from tests.support.scripted import BREAKS, Says, refuses, status

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


def test_connections_that_break_again_and_again_are_an_error(client, server):
    """As often as there are retries without an event between; an event is a new beginning."""
    server.on(EVENTS, *[Says(parts=[one], breaks=True) for one in (QUEUED, ADMITTED, HEL, LO)], Says(parts=[]))
    known = []

    with pytest.raises(UnreachableError):
        known.extend(one.id for one in client.events("r"))

    assert known == ["1", "2", "3", "4"]
    assert len(server.asked) == 4 + 2


def test_an_error_among_the_events_is_a_connection_that_broke_with_a_reason(client, server):
    """They go on behind the last event; where it stays so, the reason is told."""
    error = {"type": "server_error", "code": "redis_unavailable", "message": "m", "param": None, "rid": "r"}
    fails = f"event: error\ndata: {json.dumps({'error': error})}\n\n"
    server.on(EVENTS, Says(parts=[QUEUED, fails]), Says(parts=[ADMITTED, HEL, LO, END]))
    assert [one.id for one in client.events("r")] == ["1", "2", "3", "4", "5"]
    server.on(EVENTS, Says(parts=[fails]))

    with pytest.raises(UnreachableError, match="503 redis_unavailable: m"):
        list(client.events("r", after="5"))


def test_an_upload_whose_deletion_went_unanswered_is_deleted(client, server):
    """The second attempt finds nothing, which is what was wanted; an id is one part of the path whatever it holds."""
    server.on("DELETE /v1/media/sha256:ab/..?", BREAKS, refuses(404, "media_not_found"))

    client.delete_upload("sha256:ab/..?")

    assert len(server.asked) == 2


def test_an_upload_whose_connection_breaks_is_sent_again(client, server):
    """The same bytes have the same id."""
    server.on("POST /v1/media", BREAKS, Says({"id": "sha256:ab", "bytes": 5, "expires_ms": 9}, 201))

    assert client.upload(b"bytes").id == "sha256:ab"
