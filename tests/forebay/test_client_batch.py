"""The same question about many files: bounded, in order, gone on with, and stopped."""

from __future__ import annotations

import asyncio
import io
import json
import re

import pytest
from rich.console import Console

from forebay import AsyncClient, Client
from forebay.client import Answer, FileError, RequestFailedError, Row, UnreachableError, progress_bar
from forebay.client.rows import Question
from forebay.errors import Problem
from tests.support.clients import BOTH, either
from tests.support.scripted import Says, chat, refuses

CHAT = "POST /v1/chat/completions"


@pytest.fixture(params=BOTH)
def client(request, server):
    with either(request.param, server.url, retries=0) as client:
        yield client


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{name}.png" for name in "abcd"]
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def test_rows_keep_the_order_of_their_files_whichever_ends_first(client, server, files):
    """The first file takes longest; another is missing and one is no media, and neither harms the others."""
    server.on(CHAT, Says(chat("slow"), after_s=0.2), Says(chat("quick")))
    asked = [files[0], files[0].parent / "none.png", files[1], "notes.txt", files[2]]

    rows = client.batch(asked, "What?", concurrency=2)

    assert [row.file for row in rows] == list(map(str, asked))
    assert sorted(row.answer.text for row in rows if row.is_answered) == ["quick", "quick", "slow"]
    assert [type(row.error) for row in rows] == [type(None), FileError, type(None), FileError, type(None)]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_shows_how_far_a_batch_has_come(client, server, files, is_terminal):
    """On a terminal: the file that came last, and how many of how many. Nowhere else is anything drawn."""
    server.on(CHAT, Says(chat("yes")))
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=is_terminal, width=100)

    with progress_bar(console) as bar:
        client.batch(files, "What?", concurrency=1, progress=bar)

    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn.getvalue())
    assert ("d.png" in shown and "4/4" in shown) if is_terminal else not shown.strip()


def test_a_broken_connection_is_its_files_own(client, server, files):
    """As is a refusal."""
    server.on(CHAT, Says(breaks=True), refuses(503, "overloaded"), Says(chat("yes")))

    rows = client.batch(files, "What?", concurrency=1)

    assert [type(row.error) for row in rows[:2]] == [UnreachableError, RequestFailedError]
    assert [row.answer.text for row in rows[2:]] == ["yes", "yes"]


def test_a_row_of_another_question_answers_nothing(client, server, files, tmp_path):
    """Only the same file, prompt and model are the same question."""
    server.on(CHAT, Says(chat("one")), Says(chat("two")), Says(chat("three")))
    out = tmp_path / "out.jsonl"

    texts = [client.batch(files[:1], *asked, out=out)[0].answer.text for asked in (["A"], ["B"], ["A"])]

    assert texts == ["one", "two", "one"]
    assert [json.loads(line)["prompt"] for line in out.read_text().splitlines()] == ["A", "B"]


def test_a_row_that_was_cut_short_is_written_anew(client, server, files, tmp_path):
    """Whoever was killed while writing has left half a line."""
    server.on(CHAT, Says(chat("yes")))
    out = tmp_path / "out.jsonl"
    client.batch(files[:2], "A", out=out)
    out.write_bytes(out.read_bytes()[:-9])

    rows = client.batch(files[:2], "A", out=out)

    assert [row.answer.text for row in rows] == ["yes", "yes"]
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 2
    assert len(server.asked) == 3


def test_a_file_of_something_else_is_not_added_to(client, files, tmp_path):
    """It is somebody's."""
    (tmp_path / "notes").write_text("my notes\n")

    with pytest.raises(FileError, match="line 1 is no row of a batch"):
        client.batch(files, "A", out=tmp_path / "notes")
    with pytest.raises(FileError, match="Is a directory"):
        client.batch(files, "A", out=tmp_path)


def test_a_batch_that_is_stopped_cancels_what_is_under_way(server, files):
    """Ctrl-C comes with the first row: the second request is cancelled by its id, the others are never sent."""
    server.on(CHAT, Says(chat("yes")), Says(chat("late"), after_s=0.5))

    def interrupt(*_):
        raise KeyboardInterrupt

    with Client(server.url) as client, pytest.raises(KeyboardInterrupt):
        client.batch(files, "What?", concurrency=2, progress=interrupt)

    sent = [asked.json["rid"] for asked in server.asked if asked.line == CHAT]
    cancelled = [line.removeprefix("DELETE /v1/requests/") for line in server.lines if line.startswith("DELETE")]
    assert len(sent) <= 3
    assert cancelled
    assert set(cancelled) <= set(sent)


async def test_a_batch_whose_task_is_cancelled_asks_nothing_more(server, files):
    """Its connections close, which is how the API hears of it."""
    server.on(CHAT, Says(chat("late"), after_s=0.3))

    async with AsyncClient(server.url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.15):
                await client.batch(files, "What?", concurrency=2)

    assert len(server.asked) == 2


@pytest.mark.parametrize(
    "row",
    [
        Row("a.png", Answer("yes", "r", 3, 1, "stop")),
        Row("\udcff.png", Answer("\u2028é", "r", 3, 1, "length")),
        Row("a.png", error=RequestFailedError(Problem("x", "m", 413, "p"), "r")),
        Row("a.png", error=FileError("a.png: no")),
        Row("a.png", error=UnreachableError("no answer", was_sent=True)),
    ],
)
def test_a_row_is_read_as_it_was_written(row):
    """Also one whose file has a name that is no text."""
    line = json.dumps(row.as_map(Question("A", None)), ensure_ascii=False).encode(errors="backslashreplace")

    read = Row.from_map(json.loads(line))

    assert (read.file, str(read.error), type(read.error)) == (row.file, str(row.error), type(row.error))
    assert read.is_answered == row.is_answered
    if row.answer:
        assert (read.answer.text, read.answer.finish_reason) == (row.answer.text, row.answer.finish_reason)
