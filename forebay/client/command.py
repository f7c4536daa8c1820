"""``forebay send``: a question about files from the command line, answered as it grows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from forebay.cli import configuration_errors
from forebay.client.address import DEFAULT_URL, KEY_VARIABLE, URL_VARIABLE
from forebay.client.bar import progress_bar
from forebay.client.batch import CONCURRENCY
from forebay.client.errors import FileError, RequestFailedError
from forebay.client.files import media_files
from forebay.client.rows import Question, Row
from forebay.client.sending import Sending
from forebay.client.sync import Client
from forebay.client.verbs import new_rid
from forebay.errors import ForebayError

_INTERRUPTED = 130  # what a shell expects after Ctrl-C


@dataclass(frozen=True, slots=True)
class _Wishes:
    """How the answers are wanted."""

    as_json: bool
    stream: bool
    recursive: bool
    concurrency: int
    out: Path | None


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="FILE... [PROMPT]")
@click.option("--url", envvar=URL_VARIABLE, show_envvar=True, metavar="URL", help=f"The API; else {DEFAULT_URL}.")
@click.option("--api-key", envvar=KEY_VARIABLE, show_envvar=True, metavar="KEY", help="Who asks, where keys are asked.")
@click.option("--model", "-m", metavar="NAME", help="Which model; may be left out when one is served.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Most tokens of an answer.")
@click.option("--json", "as_json", is_flag=True, help="The API's own answer; of several requests, a line of JSON each.")
@click.option("--stream/--no-stream", default=True, show_default=True, help="Show the answer as it grows.")
@click.option("--recursive", "-r", is_flag=True, help="The folders below a folder as well.")
@click.option("--concurrency", type=click.IntRange(1), default=CONCURRENCY, show_default=True, help="Requests at once.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="JSONL",
    help="Ask about each file by itself and add a line for it; what the file answers already is not asked again.",
)  # fmt: skip
def send(
    arguments: tuple[str, ...],
    url: str | None,
    api_key: str | None,
    model: str | None,
    max_tokens: int | None,
    as_json: bool,
    stream: bool,
    recursive: bool,
    concurrency: int,
    out: Path | None,
) -> None:
    """Ask a model about files: forebay send photo.jpg "What is this?".

    Several files are one question about all of them. With a folder, or with --out, each file is a question of its own.
    """
    wishes = _Wishes(as_json, stream, recursive, concurrency, out)
    with _told(), configuration_errors(), Client(url, api_key) as client:
        sending = Sending.of(arguments)
        question = Question(sending.prompt, model, max_tokens)
        if out is not None or any(path.is_dir() for path in sending.paths):
            _send_each(client, sending, question, wishes)
        else:
            _send_all(client, sending, question, wishes)


@contextmanager
def _told() -> Iterator[None]:
    """Errors are one line, and the exit status 1; after Ctrl-C it is a shell's own."""
    try:
        yield
    except ForebayError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("cancelled", err=True)
        sys.exit(_INTERRUPTED)


def _send_all(client: Client, sending: Sending, question: Question, wishes: _Wishes) -> None:
    """One request about all files."""
    rid = new_rid()
    asked = {**question.fields, "rid": rid}
    try:
        if wishes.as_json:
            click.echo(json.dumps(client.ask(sending.prompt, sending.paths, **asked).raw, ensure_ascii=False))
        elif wishes.stream:
            _show_growing(client, sending, asked)
        else:
            click.echo(client.ask(sending.prompt, sending.paths, **asked).text)
    except RequestFailedError as error:
        file, said = _file_of(error, sending.paths), str(error)
        if file:
            said = said.replace(f"{error.param}: ", "")
        click.echo(f"{file}{said} (request {rid})", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        with suppress(ForebayError):
            client.cancel(rid)
        raise


def _file_of(error: RequestFailedError, paths: Sequence[Path]) -> str:
    """The file that an error is about; the API knows only its place in the conversation, in the order of the files."""
    place = re.match(r"messages\[0\]\.content\[(\d+)\]", error.param or "")
    return f"{paths[int(place[1])]}: " if place and int(place[1]) < len(paths) else ""


def _show_growing(client: Client, sending: Sending, asked: dict[str, Any]) -> None:
    shown = ""
    try:
        for answer in client.ask_stream(sending.prompt, sending.paths, **asked):
            click.echo(answer.text[len(shown) :], nl=False)
            shown = answer.text
    finally:
        if shown:
            click.echo()


def _send_each(client: Client, sending: Sending, question: Question, wishes: _Wishes) -> None:
    """A request about each file, with a bar on the terminal, and the answers when all are there."""
    files = [file for path in sending.paths for file in _files(path, wishes.recursive)]
    if not files:
        raise FileError(f"{', '.join(map(str, sending.paths))}: no image, recording or video is there")
    with progress_bar() as progress:
        rows = client.batch(
            files, question.prompt, model=question.model, max_tokens=question.max_tokens,
            concurrency=wishes.concurrency, out=wishes.out, progress=progress,
        )  # fmt: skip
    for row in rows:
        if wishes.out is None:
            _show_row(row, question, as_json=wishes.as_json)
        elif row.error is not None:
            click.echo(f"{row.file}: {row.error}", err=True)
    failed = sum(row.error is not None for row in rows)
    if failed:
        raise FileError(f"{failed} of {len(rows)} files have no answer")


def _files(path: Path, recursive: bool) -> list[Path]:
    return media_files(path, recursive=recursive) if path.is_dir() else [path]


def _show_row(row: Row, question: Question, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(row.as_map(question), ensure_ascii=False))
    elif row.answer is not None:
        click.echo(f"{row.file}: {row.answer.text}")
    else:
        click.echo(f"{row.file}: {row.error}", err=True)
