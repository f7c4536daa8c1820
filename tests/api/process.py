"""An API process inside the test, and the ways to talk to it while others do their part."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from api.app import make_app
from api.settings import ApiSettings


@asynccontextmanager
async def started(settings: ApiSettings) -> AsyncIterator[FastAPI]:
    app = make_app(settings)
    async with app.router.lifespan_context(app):
        yield app


def talking_to(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def meanwhile(request: Awaitable[Any], play: Callable[[], object]) -> Any:
    """Serve a request while the others, in a thread, do their part."""
    answer, _ = await asyncio.gather(request, asyncio.to_thread(play))
    return answer


def events_of(text: str) -> list[Any]:
    """The data of server-sent events."""
    blocks = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    return [block if block == "[DONE]" else json.loads(block) for block in blocks]


async def until(holds: Callable[[], object]) -> None:
    """Wait for what happens elsewhere, a few seconds at most."""
    async with asyncio.timeout(4):
        while not holds():  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.005)
