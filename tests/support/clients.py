"""Both clients behind the same blocking calls, so that one test is a test of both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from forebay import AsyncClient, Client


class Blocking:
    """An ``AsyncClient`` whose verbs are waited for; its iterators are ordinary ones."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*given, **named)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            doing = getattr(self._client, verb)(*given, **named)
            return self._runner.run(doing) if inspect.iscoroutine(doing) else self._each(doing)

        return call

    def _each(self, iterator: Any) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(iterator)

        try:
            while True:
                try:
                    yield self._runner.run(following())
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(iterator.aclose())

    def close(self) -> None:
        with self._runner:
            self._runner.run(self._client.close())


BOTH = {"threads": Client, "asyncio": Blocking}


@contextmanager
def either(kind: str, *given: Any, **named: Any) -> Iterator[Any]:
    """The client of that kind, closed at the end."""
    client = BOTH[kind](*given, **named)
    try:
        yield client
    finally:
        client.close()
