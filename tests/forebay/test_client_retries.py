"""When a client sends again: a server that says when, a connection that broke; and never so that work is done twice.

The server is scripted, because a real one cannot be told to break a connection at a given moment.
"""

from __future__ import annotations

import socket

import pytest

from forebay.client import RequestFailedError, UnreachableError
from forebay.client.talk import Retries
from forebay.errors import Problem
from tests.support.clients import BOTH, either
from tests.support.scripted import BREAKS, Says, chat, native, refuses, status

GENERATE, CHAT, SUBMIT = "POST /generate", "POST /v1/chat/completions", "POST /v1/requests"


@pytest.fixture(params=BOTH)
def client(request, server):
    with either(request.param, server.url, retries=2) as client:
        yield client


@pytest.fixture(autouse=True)
def ids(monkeypatch):
    """The client's ids are known, so that the script can speak of them."""
    monkeypatch.setattr("forebay.client.verbs.new_rid", lambda: "mine")
    monkeypatch.setattr("forebay.client.talk._FIRST_PAUSE_S", 0.01)


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_says_when_is_asked_again_then(client, server, code):
    """Under the same id, because it has refused the first."""
    server.on(GENERATE, refuses(code, "overloaded", Retry_After="0"), Says(native("yes")))

    assert client.generate(text="Hi").text == "yes"
    assert [asked.json["rid"] for asked in server.asked] == ["mine", "mine"]


def test_patience_is_bounded(client, server):
    """Two retries are three attempts; the last error is the caller's."""
    server.on(GENERATE, refuses(503, "overloaded", Retry_After="0"))

    with pytest.raises(RequestFailedError) as caught:
        client.generate(text="Hi")

    assert (caught.value.retry_after_s, caught.value.is_retryable) == (0, True)
    assert server.lines == [GENERATE] * 3


@pytest.mark.parametrize(("answer", "code"), [(refuses(503, "pool_damaged"), 503), (refuses(400, "invalid_json"), 400)])
def test_what_does_not_say_when_is_an_error_at_once(client, server, answer, code):
    """Only the API knows whether it is worth it."""
    server.on(GENERATE, answer)

    with pytest.raises(RequestFailedError) as caught:
        client.generate(text="Hi")

    assert (caught.value.status, server.lines) == (code, [GENERATE])


def test_an_answer_that_was_lost_on_its_way_is_fetched(client, server):
    """The connection broke after the work was done: it is not done again."""
    server.on(GENERATE, BREAKS)
    server.on("GET /v1/requests/mine", Says(status("mine", "done", "yes")))

    assert client.generate(text="Hi").text == "yes"
    assert server.lines == [GENERATE, "GET /v1/requests/mine"]


def test_work_that_still_runs_is_waited_for(client, server):
    """Its caller was lost, the request was not."""
    server.on(CHAT, BREAKS)
    running, done = Says(status("mine", "processing")), Says(status("mine", "done", "yes"))
    server.on("GET /v1/requests/mine", running, running, done)

    assert client.ask("Hi").text == "yes"
    assert server.lines == [CHAT, *["GET /v1/requests/mine"] * 3]


def test_work_that_never_arrived_is_sent_again(client, server):
    """Nobody knows its id."""
    server.on(CHAT, BREAKS, Says(chat("yes")))

    assert client.ask("Hi").text == "yes"
    assert server.lines == [CHAT, "GET /v1/requests/mine", CHAT]


def test_an_id_that_is_taken_by_the_first_attempt_is_no_error(client, server):
    """It had been accepted after it was looked for: 409 is the answer "already accepted"."""
    server.on(GENERATE, BREAKS, refuses(409, "duplicate_rid"))
    server.on("GET /v1/requests/mine", refuses(404, "request_not_found"), Says(status("mine", "done", "yes")))

    assert client.generate(text="Hi").text == "yes"
    assert server.lines == [GENERATE, "GET /v1/requests/mine"] * 2


def test_an_id_that_somebody_else_has_is_an_error(client, server):
    """Nothing of ours was sent before."""
    server.on(GENERATE, refuses(409, "duplicate_rid"))

    with pytest.raises(RequestFailedError, match="409 duplicate_rid"):
        client.generate(text="Hi")
    assert server.lines == [GENERATE]


def test_work_that_was_cancelled_for_its_lost_caller_is_sent_again(client, server):
    """The API cancels what nobody seems to wait for, maybe only while it is being looked at."""
    server.on(GENERATE, BREAKS, BREAKS, Says(native("yes")))
    running, cancelled = Says(status("mine", "queued")), Says(status("mine", "cancelled"))
    server.on("GET /v1/requests/mine", running, cancelled, cancelled)

    assert client.generate(text="Hi").text == "yes"
    assert server.lines.count(GENERATE) == 3


def test_work_that_ended_badly_has_its_own_error(client, server):
    """Not the broken connection's."""
    error = {"type": "invalid_request_error", "code": "damaged_image", "message": "m", "param": "p", "rid": "mine"}
    server.on(GENERATE, BREAKS)
    server.on("GET /v1/requests/mine", Says(status("mine", "rejected", error=error)))

    with pytest.raises(RequestFailedError) as caught:
        client.generate(text="Hi")
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "damaged_image", "p")


def test_a_submission_that_was_accepted_before_its_connection_broke_stands(client, server):
    """However it stands now."""
    server.on(SUBMIT, BREAKS)
    server.on("GET /v1/requests/mine", Says(status("mine", "parked")))

    submitted = client.submit(text="Hi")

    assert (submitted.rid, submitted.model, submitted.deadline_ms) == ("mine", "m", 9)
    assert server.lines == [SUBMIT, "GET /v1/requests/mine"]


@pytest.mark.parametrize("verb", ["generate", "submit", "preprocess"])
def test_what_could_be_mistaken_for_another_request_is_not_sent_again(client, server, verb):
    """A caller's own id may be an earlier request's; features have no record to be fetched from."""
    own = {} if verb == "preprocess" else {"rid": "theirs"}
    for line in (GENERATE, SUBMIT, "POST /v1/preprocess"):
        server.on(line, BREAKS)

    with pytest.raises(UnreachableError) as caught:
        getattr(client, verb)(text="Hi", **own)

    assert caught.value.was_sent
    assert len(server.asked) == 1


def test_questions_that_change_nothing_are_repeated(client, server):
    """A look, a cancellation, a list."""
    server.on("GET /v1/requests/r", BREAKS, Says(status("r", "queued")))
    server.on("DELETE /v1/requests/r", BREAKS, Says({"rid": "r", "state": "cancelled"}))
    server.on("GET /v1/models", BREAKS, Says({"data": []}))

    assert (client.status("r").state, client.cancel("r"), client.models()) == ("queued", "cancelled", [])


@pytest.mark.parametrize("kind", BOTH)
def test_where_nobody_listens_the_address_is_told(kind):
    """After as many attempts as were allowed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with either(kind, f"http://127.0.0.1:{port}", retries=1) as client, pytest.raises(UnreachableError) as caught:
        client.generate(text="Hi")

    assert str(caught.value).startswith(f"no answer from http://127.0.0.1:{port}: ")
    assert not caught.value.was_sent


@pytest.mark.parametrize("kind", BOTH)
def test_silence_ends_with_the_clients_patience(kind, server):
    """And is not waited for again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with either(kind, url, timeout_s=0.1) as client, pytest.raises(UnreachableError) as caught:
            client.generate(text="Hi")

    assert (caught.value.was_sent, caught.value.is_timeout) == (True, True)


def failed(code: int, after_s: int | None) -> RequestFailedError:
    return RequestFailedError(Problem("x", "x", code, retry_after_s=after_s))


@pytest.mark.parametrize(
    ("error", "attempt", "is_repeatable", "expected"),
    [
        (failed(503, 7), 0, False, 7),
        (failed(429, 0), 1, False, 0),
        (failed(503, 7), 2, False, None),
        (failed(503, 31), 0, False, None),
        (failed(503, None), 0, True, None),
        (failed(500, 1), 0, True, None),
        (UnreachableError("x", was_sent=False), 0, False, 0.01),
        (UnreachableError("x", was_sent=False), 1, False, 0.02),
        (UnreachableError("x", was_sent=True), 0, False, None),
        (UnreachableError("x", was_sent=True), 0, True, 0.01),
        (UnreachableError("x", was_sent=True, is_timeout=True), 0, True, None),
        (UnreachableError("x", was_sent=False, is_timeout=True), 0, False, 0.01),
    ],
)
def test_a_pause_is_what_the_error_says(error, attempt, is_repeatable, expected):
    """Attempts count from zero; two retries are allowed."""
    assert Retries(2).pause_s(error, attempt, is_repeatable=is_repeatable) == expected
