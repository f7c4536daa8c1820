"""``forebay send``: which arguments are files, and what is said when something is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from forebay.client import FileError
from forebay.client.command import send
from forebay.client.sending import Sending
from tests.support.scripted import Says, chat, refuses

CHAT = "POST /v1/chat/completions"
HERE = {"photo.jpg", "talk.wav", "my photo.jpg", "folder"}


def read(*arguments: str) -> Sending:
    return Sending.of(arguments, HERE.__contains__)


@pytest.mark.parametrize(
    ("arguments", "paths", "prompt"),
    [
        (["photo.jpg", "What is this?"], ["photo.jpg"], "What is this?"),
        (["What is this?", "photo.jpg"], ["photo.jpg"], "What is this?"),
        (["photo.jpg", "talk.wav", "Describe"], ["photo.jpg", "talk.wav"], "Describe"),
        (["photo.jpg", "Is it like other.jpg"], ["photo.jpg"], "Is it like other.jpg"),
        (["photo.jpg", "Why."], ["photo.jpg"], "Why."),
        (["my photo.jpg"], ["my photo.jpg"], None),
        (["folder"], ["folder"], None),
        (["Hello"], [], "Hello"),
    ],
)
def test_what_exists_is_a_file_and_the_other_is_the_prompt(arguments, paths, prompt):
    """Wherever it stands."""
    assert read(*arguments) == Sending(tuple(map(Path, paths)), prompt)


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["photo.jpgg"], "photo.jpgg"),
        (["photo.jpg", "photo.jpgg"], "photo.jpgg"),
        (["photo.jpgg", "What is this?"], "photo.jpgg"),
        (["none", "photo.jpg", "What is this?"], "none"),
        (["photo.jpg", "pictures/photo"], "pictures/photo"),
        (["their photo.jpg"], "their photo.jpg"),
    ],
)
def test_a_missing_file_is_no_prompt(arguments, missing):
    """One word with a suffix or a slash is a file's name, and so is whatever stands before the prompt."""
    with pytest.raises(FileError, match=f"^{missing}: no such file$"):
        read(*arguments)


def test_a_prompt_may_be_longer_than_any_name():
    """The file system is asked about it all the same."""
    assert Sending.of(["Say it again. " * 500]).prompt is not None


@pytest.fixture
def photo(tmp_path) -> str:
    (tmp_path / "photo.jpg").write_bytes(b"abc")
    return str(tmp_path / "photo.jpg")


def run(server, *arguments: str):
    return CliRunner().invoke(send, [*arguments, "--url", server.url])


def test_the_options_reach_the_api(server, photo):
    """And the answer the terminal."""
    server.on(CHAT, Says(chat("a cat")))

    sent = run(server, photo, "What?", "--model", "m", "--max-tokens", "3", "--api-key", "k", "--no-stream")

    [asked] = server.asked
    assert (sent.output, sent.exit_code) == ("a cat\n", 0)
    assert (asked.json["model"], asked.json["max_tokens"], asked.headers["authorization"]) == ("m", 3, "Bearer k")


@pytest.mark.parametrize("how", ["--stream", "--no-stream", "--json"])
def test_an_error_is_one_line_and_the_exit_status(server, photo, how):
    """Whichever way the answer was wanted."""
    server.on(CHAT, refuses(413, "media_too_large"))

    sent = run(server, photo, "What?", how)

    assert (sent.stdout, sent.exit_code) == ("", 1)
    assert re.fullmatch(r"413 media_too_large: a sentence \(request [0-9a-f]{32}\)\n", sent.stderr)


def test_a_stream_that_breaks_ends_its_line_before_the_error(server, photo):
    """What was said stands."""
    chunk = '{"id": "r", "choices": [{"index": 0, "delta": {"content": "a c"}, "finish_reason": null}]}'
    server.on(CHAT, Says(parts=[f"data: {chunk}\n\n"], breaks=True))

    sent = run(server, photo, "What?")

    assert (sent.stdout, sent.exit_code) == ("a c\n", 1)
    assert sent.stderr.startswith("no answer from http://127.0.0.1:")


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["photo.jpgg"], "photo.jpgg: no such file\n", 1),
        (["{folder}"], "{folder}: no image, recording or video is there\n", 1),
        (["Hi", "--url", "tier:8000"], "Error: the API's address 'tier:8000' must begin with http:// or https://\n", 2),
        (["Hi", "--url", "http://127.0.0.1:9"], "no answer from http://127.0.0.1:9: ", 1),
    ],
)
def test_what_cannot_be_sent_says_why(tmp_path, arguments, said, code):
    """In one line."""
    sent = CliRunner().invoke(send, [one.format(folder=tmp_path) for one in arguments])

    assert sent.exit_code == code
    assert said.format(folder=tmp_path) in sent.stderr


def test_a_folder_is_asked_about_file_by_file(server, tmp_path, photo):
    """As lines of JSON where they were wanted; a file by itself is a row, too, when there is a file for rows."""
    server.on(CHAT, Says(chat("a cat")))

    as_json = run(server, str(tmp_path), "What?", "--json")
    written = run(server, photo, "What?", "--out", str(tmp_path / "out.jsonl"))

    assert as_json.stdout.startswith('{"file": "')
    assert '"text": "a cat"' in as_json.stdout
    assert (written.output, written.exit_code) == ("", 0)
    assert (tmp_path / "out.jsonl").read_text() == as_json.stdout
