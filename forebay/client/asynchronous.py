"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
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


class AsyncClient:
    """Talks to one API. The verbs, arguments and errors are those of ``Client``, to be awaited or iterated over.

    Cancelling a task cancels the request that it waits for. Files are read and encoded in threads.
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
        self._http = httpx.AsyncClient(**transport.settings(self._address, timeout_s))

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(
        self,
        prompt: str | None,
        files: Sequence[str | Path] = (),
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        **fields: Any,
    ) -> Answer:
        """As ``Client.ask``."""
        asked = {"model": model, "max_tokens": max_tokens, **fields}
        return await self._lead(await asyncio.to_thread(self._verbs.ask, prompt, files, asked))

    async def ask_stream(
        self,
        prompt: str | None,
        files: Sequence[str | Path] = (),
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        **fields: Any,
    ) -> AsyncGenerator[Answer, None]:
        """As ``Client.ask_stream``."""
        asked = {"model": model, "max_tokens": max_tokens, **fields}
        opening = await asyncio.to_thread(self._verbs.ask_stream, prompt, files, asked)
        async with aclosing(self._grow(opening, Said())) as answers:
            async for answer in answers:
                yield answer

    async def generate(self, **request: Unpack[Request]) -> Answer:
        """As ``Client.generate``."""
        return await self._lead(await asyncio.to_thread(self._verbs.generate, request))

    async def generate_many(self, **request: Unpack[Request]) -> list[Answer | RequestFailedError]:
        """As ``Client.generate_many``."""
        return await self._lead(await asyncio.to_thread(self._verbs.generate_many, request))

    async def stream(self, **request: Unpack[Request]) -> AsyncGenerator[Answer, None]:
        """As ``Client.stream``."""
        opening = await asyncio.to_thread(self._verbs.stream, request)
        async with aclosing(self._grow(opening, Generated())) as answers:
            async for answer in answers:
                yield answer

    async def preprocess(self, **request: Unpack[Request]) -> Preparation:
        """As ``Client.preprocess``."""
        return await self._lead(await asyncio.to_thread(self._verbs.preprocess, request))

    async def submit(self, **request: Unpack[Request]) -> Submitted:
        """As ``Client.submit``."""
        return await self._lead(await asyncio.to_thread(self._verbs.submit, request))

    async def status(self, rid: str) -> Status:
        """As ``Client.status``."""
        return await self._lead(self._verbs.status(rid))

    async def wait(self, rid: str, timeout_s: float | None = None) -> Answer:
        """As ``Client.wait``."""
        return await self._lead(self._verbs.wait(rid, timeout_s))

    async def events(self, rid: str, after: str | None = None) -> AsyncGenerator[Event, None]:
        """As ``Client.events``."""
        following = Following(rid, after, self._retries)
        while not following.is_over:
            reply = await self._lead(following.open())
            if reply is None:
                return
            try:
                async with aclosing(self._each(reply, following.feed)) as events:
                    async for event in events:
                        yield event
                if not following.is_over:
                    raise UnreachableError("the events ended before the request did", was_sent=True)
            except UnreachableError as error:
                following.broke(error)

    async def cancel(self, rid: str) -> State:
        """As ``Client.cancel``."""
        return await self._lead(self._verbs.cancel(rid))

    async def requests(self, *, state: str | None = None, model: str | None = None) -> AsyncGenerator[Listed, None]:
        """As ``Client.requests``."""
        cursor: str | None = None
        while True:
            page = await self._lead(self._verbs.page(state, model, cursor))
            for entry in page.entries:
                yield entry
            cursor = page.next
            if cursor is None:
                return

    async def upload(self, source: bytes | Path) -> Upload:
        """As ``Client.upload``."""
        return await self._lead(await asyncio.to_thread(self._verbs.upload, source))

    async def has_upload(self, identity: str) -> bool:
        """As ``Client.has_upload``."""
        return await self._lead(self._verbs.has_upload(identity))

    async def delete_upload(self, identity: str) -> None:
        """As ``Client.delete_upload``."""
        await self._lead(self._verbs.delete_upload(identity))

    async def models(self) -> list[Model]:
        """As ``Client.models``."""
        return await self._lead(self._verbs.models())

    async def batch(
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
        """As ``Client.batch``."""
        question = Question(prompt, model, max_tokens)
        with Batch.plan(source, question, recursive, out, progress) as batch:
            tasks = iter(batch.left)
            workers = [asyncio.ensure_future(self._work(tasks, batch)) for _ in range(concurrency)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
            return batch.rows

    async def _work(self, tasks: Iterator[Task], batch: Batch) -> None:
        for task in tasks:
            batch.ended(task, await self._row(task, batch))

    async def _row(self, task: Task, batch: Batch) -> Row:
        asked = batch.question
        try:
            with batch.asking() as rid:
                talk = await asyncio.to_thread(self._verbs.ask, asked.prompt, [task.path], asked.fields, rid)
                return Row(str(task.path), await self._lead(talk))
        except ForebayError as error:
            return Row(str(task.path), error=error)

    async def _grow(self, opening: Talk[Reply], growing: Growing) -> AsyncGenerator[Answer, None]:
        growth = Growth(growing)
        async with aclosing(self._each(await self._lead(opening), growth.feed)) as answers:
            async for answer in answers:
                yield answer
        growth.finish()

    async def _each(self, reply: Reply, feed: Callable[[bytes], Iterator[T]]) -> AsyncGenerator[T, None]:
        """What a stream's bytes become; it is closed however this is left."""
        async with aclosing(reply.source) as response:
            with transport.translated(self._address.url):
                async for data in response.aiter_bytes():
                    for one in feed(data):
                        yield one

    async def _lead(self, talk: Talk[T]) -> T:
        """Do what a talk wants until it has its result."""
        try:
            step = next(talk)
            while True:
                try:
                    reply = await self._perform(step)
                except UnreachableError as error:
                    step = talk.throw(error)
                else:
                    step = talk.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform(self, step: Send | Pause) -> Reply | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        with transport.translated(self._address.url):
            request = self._http.build_request(**transport.arguments(step))
            response = await self._http.send(request, stream=True)
            is_open = transport.is_left_open(step, response)
            if not is_open:
                async with aclosing(response):
                    await response.aread()
        return transport.reply_of(response, is_open=is_open)
