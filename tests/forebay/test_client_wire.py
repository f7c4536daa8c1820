"""What the clients send and how they read: addresses, bodies, files, events, errors. No server is needed."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from forebay import AsyncClient, Client, ConfigurationError
from forebay.client import Answer, FileError, RequestFailedError, Status, UnreachableError, Upload
from forebay.client.address import Address
from forebay.client.bodies import chat_body, is_for_several, request_body
from forebay.client.errors import failure_in, failure_of
from forebay.client.files import media_files
from forebay.client.growth import Generated, Growth, Said
from forebay.client.sse import EventReader
from tests.support.clients import BOTH, either
from tests.support.scripted import Says, native, status


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        (None, {}, "http://127.0.0.1:8000"),
        (None, {"FOREBAY_URL": "https://tier:1/"}, "https://tier:1"),
        ("http://other", {"FOREBAY_URL": "http://tier"}, "http://other"),
        (None, {"FOREBAY_URL": ""}, "http://127.0.0.1:8000"),
    ],
)
def test_an_address_is_given_or_the_environments_or_this_machine(url, environ, expected):
    """In that order; an empty variable is none."""
    assert Address.of(url, None, environ).url == expected


def test_an_address_without_a_scheme_is_refused():
    """Before anything is sent anywhere."""
    with pytest.raises(ConfigurationError, match="'localhost:8000' must begin with http"):
        Address.of("localhost:8000", None, {})


@pytest.mark.parametrize("given", ["key\n", " key", "key\r\n"])
def test_a_key_may_come_with_the_end_of_its_line(given):
    """As it is read from a file."""
    assert Address.of(None, given, {}).headers == {"Authorization": "Bearer key"}
    assert Address.of(None, None, {"FOREBAY_API_KEY": given}).headers == {"Authorization": "Bearer key"}


@pytest.mark.parametrize("given", ["se\ncret", "se cret", "secr\u00e9t", "secret\x00"])
def test_a_key_that_cannot_be_sent_is_refused_unshown(given):
    """Before a library puts it into an error's text."""
    with pytest.raises(ConfigurationError, match="an API key is printable ASCII") as caught:
        Address.of(None, given, {})

    assert "cr" not in str(caught.value)


def test_a_key_is_not_shown():
    """Logs and tracebacks show objects."""
    assert "secret" not in repr(Address.of(None, "secret", {}))


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("given", "variable", "sent"), [("a", "b", "Bearer a"), (None, "b", "Bearer b"), (None, "", None)]
)
def test_a_key_goes_with_every_request(monkeypatch, server, kind, given, variable, sent):
    """As a bearer token; without one nothing is sent."""
    monkeypatch.setenv("FOREBAY_API_KEY", variable)
    monkeypatch.setenv("FOREBAY_URL", server.url)
    server.on("GET /v1/models", Says({"data": []}))

    with either(kind, api_key=given) as client:
        client.models()

    assert server.asked[0].headers.get("authorization") == sent


def verbs(client: type) -> dict[str, list[tuple]]:
    """The public methods, with their arguments and defaults."""
    public = ((name, verb) for name, verb in inspect.getmembers(client, inspect.isfunction) if name[0] != "_")
    return {
        name: [(one.name, one.kind, one.default) for one in inspect.signature(verb).parameters.values()]
        for name, verb in public
    }


def test_both_clients_have_the_same_verbs():
    """With the same arguments and defaults."""
    assert verbs(Client) == verbs(AsyncClient)
    assert "generate" in verbs(Client)


def test_importing_forebay_brings_no_http():
    """The clients come when they are asked for."""
    program = """
import sys, forebay
assert "httpx" not in sys.modules
assert "Client" in forebay.__all__
from forebay import AsyncClient, Client
assert Client.__module__ == "forebay.client.sync"
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stderr


def test_media_become_what_the_api_takes(tmp_path):
    """Paths and bytes base64, an upload its id, anything else as it is; of a batch as deep as it goes."""
    (tmp_path / "a.png").write_bytes(b"abc")
    upload = Upload("sha256:ab", 3, 9)

    body = request_body(images=[[tmp_path / "a.png", b"abc"], None, upload], audio=["data:,x"], text=None, n=1)

    assert body == {"image_data": [["YWJj", "YWJj"], None, "sha256:ab"], "audio_data": ["data:,x"], "n": 1}


def test_extension_fields_go_beside_the_others():
    """Under their own names."""
    assert request_body(text="x", extensions={"multimodal_gain": 2}) == {"text": "x", "multimodal_gain": 2}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"text": "a"}, False),
        ({"text": ["a"]}, True),
        ({"input_ids": [1, 2]}, False),
        ({"input_ids": [[1]]}, True),
        ({"text": "a", "sampling_params": {"n": 2}}, True),
        ({"text": "a", "sampling_params": {"n": None}}, False),
    ],
)
def test_a_list_is_known_before_it_is_sent(body, expected):
    """``generate`` gives one answer."""
    assert is_for_several(body) is expected


@pytest.mark.parametrize("kind", BOTH)
def test_generate_refuses_what_is_answered_with_a_list(kind, server):
    """Nothing is sent."""
    with either(kind, server.url) as client, pytest.raises(ValueError, match="generate_many"):
        client.generate(text=["a", "b"])

    assert server.asked == []


def test_a_question_is_a_conversation_with_the_files_first(tmp_path):
    """A part for each kind of media, and the prompt behind them."""
    for name in ("a.JPG", "b.wav", "c.mp4"):
        (tmp_path / name).write_bytes(b"abc")

    body = chat_body("What?", [tmp_path / "a.JPG", str(tmp_path / "b.wav"), tmp_path / "c.mp4"], model=None, n=1)

    assert body["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,YWJj"}},
        {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,YWJj"}},
        {"type": "text", "text": "What?"},
    ]
    assert set(body) == {"messages", "n"}


@pytest.mark.parametrize(("name", "said"), [("a.txt", "its name tells no kind of media"), ("a.png", "No such file")])
def test_a_file_that_cannot_be_sent_is_named(tmp_path, name, said):
    """Before anything is sent."""
    with pytest.raises(FileError, match=said):
        chat_body(None, [tmp_path / name])


def test_a_folders_media_are_taken_in_order(tmp_path):
    """By their suffix, whatever its case; folders below only when they are wanted."""
    (tmp_path / "deep.png").mkdir()
    for name in ("b.PNG", "a.jpg", "notes.md", "deep.png/c.wav"):
        (tmp_path / name).touch()

    assert [path.name for path in media_files(tmp_path)] == ["a.jpg", "b.PNG"]
    assert [path.name for path in media_files(str(tmp_path), recursive=True)] == ["a.jpg", "b.PNG", "c.wav"]
    assert media_files(["z", Path("a")]) == [Path("z"), Path("a")]
    with pytest.raises(FileError, match="no such folder"):
        media_files(tmp_path / "none")


STREAM = 'data: {"a": "\u2028é"}\r\n\r\n: comment\nid: 7\nevent: x\ndata: 1\ndata: 2\n\nid: 8\n\n'


@pytest.mark.parametrize("cut", range(len(STREAM.encode()) + 1))
def test_events_are_read_wherever_their_bytes_are_cut(cut):
    """In the middle of a character too; a Unicode line separator ends no line."""
    data, reader = STREAM.encode(), EventReader()

    events = [*reader.feed(data[:cut]), *reader.feed(data[cut:])]

    assert [(one.name, one.data, one.id) for one in events] == [
        ("message", '{"a": "\u2028é"}', None),
        ("x", "1\n2", "7"),
    ]


def sse(*told: object) -> bytes:
    return "".join(f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in told).encode()


def test_a_stream_that_ends_before_its_end_is_an_error():
    """Half an answer must not pass for one."""
    growth = Growth(Generated())

    [answer] = growth.feed(sse(native("half")))

    assert answer.text == "half"
    with pytest.raises(UnreachableError, match="ended before the answer did"):
        growth.finish()


def test_an_error_in_a_stream_is_raised_where_it_stands():
    """With the status of its code, which a stream cannot carry."""
    growth = Growth(Said())
    error = {"type": "server_error", "code": "answer_restarted", "message": "m", "param": None, "rid": "r"}

    with pytest.raises(RequestFailedError, match="503 answer_restarted: m"):
        list(growth.feed(sse({"error": error}, "[DONE]")))


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [("media_too_large", "", 413), ("toy_broke", "invalid_request_error", 400), ("toy_broke", "server_error", 500)],
)
def test_an_error_without_a_status_gets_its_codes(code, kind, status):
    """A model's own code has its type's."""
    assert failure_in({"code": code, "type": kind, "message": "m"}).status == status


@pytest.mark.parametrize("content", [b"<html>Bad\n gateway</html>", b"[1]", b'{"error": "x"}', b""])
def test_an_error_page_of_somebody_between_is_an_error_like_ours(content):
    """A proxy knows nothing of our shapes."""
    failure = failure_of(502, {"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, content)

    assert (failure.status, failure.code, failure.retry_after_s) == (502, "http_error", None)
    assert "\n" not in failure.message


def test_a_request_without_an_answer_has_none_to_give():
    """Its state is told."""
    with pytest.raises(RequestFailedError, match="the request is queued; it has no answer"):
        _ = Status.of(status("r", "queued")).answer
    assert Status.of(status("r", "done", "yes")).answer == Answer.of(native("yes"))
