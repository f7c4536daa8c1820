"""An API process' parts over a real server, for tests that meet the others in Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from api.replies import Replies
from api.settings import ApiSettings
from handoff.connection import Client, connect_async
from handoff.keys import Keys
from handoff.moves import Moves
from tests.api.actors import SECRET, Staff, announce
from tests.api.process import started, talking_to
from tests.support.ways import Way


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A swallowed cancellation, which these short lives meet often, costs no half second."""
    monkeypatch.setattr("api.tasks._ASK_AGAIN_S", 0.02)


@pytest.fixture
def settings(redis_url: str, tmp_path: Path) -> ApiSettings:
    return ApiSettings(secret=SECRET, redis_url=redis_url, deployment="test", media=f"spool:{tmp_path / 'media'}")


@pytest.fixture
def open_to_loopback(settings: ApiSettings) -> Callable[..., ApiSettings]:
    """Settings with which an API fetches from a port of loopback, and from no other."""

    def make(port: int, **more: object) -> ApiSettings:
        inside = {"fetch_networks": (ip_network("127.0.0.0/8"),), "fetch_ports": (port,)}
        return replace(settings, **{**inside, **more})

    return make


@pytest.fixture
def way(client: Client, moves: Moves) -> Way:
    return Way(client, moves)


@pytest.fixture
def staff(way: Way) -> Staff:
    return Staff(way)


@pytest.fixture
async def replies(client: Client, redis_url: str, keys: Keys) -> AsyncIterator[Replies]:
    """Replies whose stream is there, and that nobody reads yet."""
    replies = Replies(connect_async(redis_url, "test-replies"), keys)
    await replies.open()
    yield replies
    await replies.close()


@pytest.fixture
async def app(settings: ApiSettings, client: Client, keys: Keys) -> AsyncIterator[FastAPI]:
    """A process that is up, with one node that serves one model."""
    announce(client, keys)
    async with started(settings) as app:
        yield app


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with talking_to(app) as http:
        yield http
