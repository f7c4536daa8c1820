"""The client for threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx

from forebay.client import transport
from forebay.client.address import Address
from forebay.client.answers import Answer
from forebay.client.batch import CONCURRENCY, Batch, Progress, Task
from forebay.client.bodies import Request
from forebay.client.errors import RequestFailedError, UnreachableError
from forebay.client.events import Event, Following
from forebay.client.growth import Generated, Growing, Growth, Said
from forebay.client.listings import Listed, Model, Upload
from forebay.client.preparations import Preparation
from forebay.client.rows import Question, Row
from forebay.client.statuses import Status, Submitted
from forebay.client.talk import Pause, Reply, Retries, Send, Talk
from forebay.client.verbs import Verbs
from forebay.errors import ForebayError
from forebay.states import State

T = TypeVar("T")


class Client:
    """Talks to one API. Threads may share it; ``AsyncClient`` has the same verbs.

    Every verb raises ``RequestFailedError`` when the API refuses or the request ends badly, and ``UnreachableError``
    when no answer comes.

    Args:
        url: where the API is; else ``FOREBAY_URL``, else http://127.0.0.1:8000.
        api_key: sent as a bearer token; else ``FOREBAY_API_KEY``, else none.
        retries: how often a call is sent again after 429 or 503 with ``Retry-After``, or after a connection that broke
            before an answer. No work is done twice for it.
        timeout_s: longest silence of the API.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        retries: int = 2,
        timeout_s: float = transport.LONGEST_ANSWER_S,
    ) -> None:
        self._address = Address.of(url, api_key, os.environ)
        self._retries = Retries(retries)
        self._verbs = Verbs(self._retries)
        self._http = httpx.Client(**transport.settings(self._address, timeout_s))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def ask(
        self,
        prompt: str | None,
        files: Sequence[str | Path] = (),
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        **fields: Any,
    ) -> Answer:
        """The answer to a question about files, by the model's own chat template. Other fields go as they are.

        Raises:
            FileError: a file that cannot be sent.
        """
        return self._lead(self._verbs.ask(prompt, files, {"model": model, "max_tokens": max_tokens, **fields}))

    def ask_stream(
        self,
        prompt: str | None,
        files: Sequence[str | Path] = (),
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        **fields: Any,
    ) -> Iterator[Answer]:
        """As ``ask``, the answer as it grows. Leaving the iterator cancels the request."""
        asked = {"model": model, "max_tokens": max_tokens, **fields}
        return self._grow(self._verbs.ask_stream(prompt, files, asked), Said())

    def generate(self, **request: Unpack[Request]) -> Answer:
        """Preprocess, run the model, return the answer; the prompt holds the model's own placeholders."""
        return self._lead(self._verbs.generate(request))

    def generate_many(self, **request: Unpack[Request]) -> list[Answer | RequestFailedError]:
        """The answers to several prompts, or several answers to one; a prompt that failed has its error there."""
        return self._lead(self._verbs.generate_many(request))

    def stream(self, **request: Unpack[Request]) -> Iterator[Answer]:
        """As ``generate``, the answer as it grows. Leaving the iterator cancels the request."""
        return self._grow(self._verbs.stream(request), Generated())

    def preprocess(self, **request: Unpack[Request]) -> Preparation:
        """The features of a request, described."""
        return self._lead(self._verbs.preprocess(request))

    def submit(self, **request: Unpack[Request]) -> Submitted:
        """Send a request without waiting."""
        return self._lead(self._verbs.submit(request))

    def status(self, rid: str) -> Status:
        """How a request stands."""
        return self._lead(self._verbs.status(rid))

    def wait(self, rid: str, timeout_s: float | None = None) -> Answer:
        """The answer of a request that was submitted, once it is there.

        Raises:
            NotEndedError: it was not there after ``timeout_s``; the request goes on.
        """
        return self._lead(self._verbs.wait(rid, timeout_s))

    def events(self, rid: str, after: str | None = None) -> Iterator[Event]:
        """What happens to a request that was submitted, until its end. Goes on by itself when its connection breaks.

        Args:
            rid: the request.
            after: the ``id`` of the last event that is known already.
        """
        following = Following(rid, after, self._retries)
        while not following.is_over:
            reply = self._lead(following.open())
            if reply is None:
                return
            try:
                yield from self._each(reply, following.feed)
                if not following.is_over:
                    raise UnreachableError("the events ended before the request did", was_sent=True)
            except UnreachableError as error:
                following.broke(error)

    def cancel(self, rid: str) -> State:
        """Cancel a request; the state it is in now. Harmless once it has ended."""
        return self._lead(self._verbs.cancel(rid))

    def requests(self, *, state: str | None = None, model: str | None = None) -> Iterator[Listed]:
        """The requests that the API knows, page by page."""
        cursor: str | None = None
        while True:
            page = self._lead(self._verbs.page(state, model, cursor))
            yield from page.entries
            cursor = page.next
            if cursor is None:
                return

    def upload(self, source: bytes | Path) -> Upload:
        """Keep media at the API for later requests.

        Raises:
            FileError: a file that cannot be read.
        """
        return self._lead(self._verbs.upload(source))

    def has_upload(self, identity: str) -> bool:
        """Whether media with this id (``sha256:…``) are kept."""
        return self._lead(self._verbs.has_upload(identity))

    def delete_upload(self, identity: str) -> None:
        """Keep media no longer. Harmless where they are not kept."""
        self._lead(self._verbs.delete_upload(identity))

    def models(self) -> list[Model]:
        """The models that are served."""
        return self._lead(self._verbs.models())

    def batch(
        self,
        source: str | Path | Iterable[str | Path],
        prompt: str | None = None,
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        recursive: bool = False,
        concurrency: int = CONCURRENCY,
        out: str | Path | None = None,
        progress: Progress | None = None,
    ) -> list[Row]:
        """Ask the same about every media file of a folder, or about every path; a row for each, in their order.

        Args:
            source: a folder, of which the media files are taken in sorted order, or paths.
            prompt: what is asked about each.
            model: which model.
            max_tokens: of an answer.
            recursive: the folders below as well.
            concurrency: most requests at once.
            out: a JSONL file. Each row is added as soon as it is there; what it answers already is not asked again.
            progress: called with each row, how many there are, and how many there will be.

        Raises:
            FileError: no such folder, or ``out`` cannot be written.
        """
        question = Question(prompt, model, max_tokens)
        with Batch.plan(source, question, recursive, out, progress) as batch, ThreadPoolExecutor(concurrency) as pool:
            asked = [pool.submit(self._row, task, batch) for task in batch.left]
            try:
                for one in as_completed(asked):
                    batch.ended(*one.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._cancel(batch)
                raise
            return batch.rows

    def _row(self, task: Task, batch: Batch) -> tuple[Task, Row]:
        asked = batch.question
        try:
            with batch.asking() as rid:
                talk = self._verbs.ask(asked.prompt, [task.path], asked.fields, rid)
                return task, Row(str(task.path), self._lead(talk))
        except ForebayError as error:
            return task, Row(str(task.path), error=error)

    def _cancel(self, batch: Batch) -> None:
        for rid in batch.stop():
            with suppress(ForebayError):
                self.cancel(rid)

    def _grow(self, opening: Talk[Reply], growing: Growing) -> Iterator[Answer]:
        growth = Growth(growing)
        yield from self._each(self._lead(opening), growth.feed)
        growth.finish()

    def _each(self, reply: Reply, feed: Callable[[bytes], Iterator[T]]) -> Iterator[T]:
        """What a stream's bytes become; it is closed however this is left."""
        with closing(reply.source) as response, transport.translated(self._address.url):
            for data in response.iter_bytes():
                yield from feed(data)

    def _lead(self, talk: Talk[T]) -> T:
        """Do what a talk wants until it has its result."""
        try:
            step = next(talk)
            while True:
                try:
                    reply = self._perform(step)
                except UnreachableError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, step: Send | Pause) -> Reply | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        with transport.translated(self._address.url):
            request = self._http.build_request(**transport.arguments(step))
            response = self._http.send(request, stream=True)
            is_open = transport.is_left_open(step, response)
            if not is_open:
                with closing(response):
                    response.read()
        return transport.reply_of(response, is_open=is_open)
