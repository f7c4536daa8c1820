"""The API process: its parts, its life, its routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from api import errors
from api.context import Context
from api.doors import Doors
from api.expiry import Expiry
from api.fetch.dial import GuardedBackend
from api.fetch.fetcher import Fetcher
from api.fetch.hop import Hops, Timeouts
from api.followers import MOST, Followers
from api.keyring import KeyRing
from api.metrics import Metrics
from api.register import Register
from api.replies import Replies
from api.routes import abort, chat, events, generate, media, operations, preprocess, requests
from api.routes.openapi import document
from api.settings import ApiSettings
from api.submission import Submission
from api.tasks import end
from api.uploads import Uploads
from forebay import __version__
from forebay.errors import Failed
from forebay.notify import notify
from handoff.connection import connect, connect_async
from handoff.keys import Keys
from handoff.media import open_store
from handoff.moves import Moves


def make_app(settings: ApiSettings) -> FastAPI:
    """The ASGI application of one process.

    Raises:
        ConfigurationError: the file of API keys cannot be read.
    """
    app = FastAPIOffline(
        docs_url="/docs",
        redoc_url=None,
        static_url="/docs/static",
        title="Forebay",
        version=__version__,
        summary="The CPU tier in front of a multimodal model",
        lifespan=_life,
    )
    app.state.settings = settings
    app.state.draining = False
    app.state.metrics = Metrics()
    for room in (generate, chat, preprocess, media, events, requests, abort, operations):
        app.include_router(room.router)
    keys = None if settings.api_keys is None else KeyRing(settings.api_keys, settings.quota)
    app.add_middleware(Doors, keys=keys, default=settings.quota, access=settings.metrics, metrics=app.state.metrics)
    app.openapi = cache(lambda: document(app))  # type: ignore[method-assign]
    errors.install(app, app.state.metrics)
    return app


def _make_context(settings: ApiSettings, metrics: Metrics) -> Context:
    keys, redis = Keys(settings.prefix), connect_async(settings.redis_url, "api")
    store = open_store(settings.media, connect(settings.redis_url, "api-media"), keys)
    # The reader blocks on its connection; others must not wait behind it.
    replies = Replies(connect_async(settings.redis_url, "api-replies"), keys)
    register = Register(redis, keys)
    uploads = Uploads(redis, keys, store)
    fetcher = make_fetcher(settings)
    submission = Submission(settings, redis, Moves(keys), uploads, fetcher, replies, register)
    followers = Followers(connect_async(settings.redis_url, "api-followers", MOST))
    return Context(settings, redis, keys, store, uploads, fetcher, followers, replies, register, submission, metrics)


def make_fetcher(settings: ApiSettings) -> Fetcher:
    """What fetches media for a process, by its settings."""
    timeouts = Timeouts(settings.fetch_connect_s, settings.fetch_read_s)
    hops = Hops(GuardedBackend(settings.fetch_rules), settings.proxies, timeouts, settings.fetch_at_once)
    return Fetcher(settings.fetch_rules, hops, settings.fetch_total_s, settings.fetch_at_once)


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """Start → ready → run → stopped. Draining is uvicorn's: it waits for the open requests before this ends."""
    context = _make_context(app.state.settings, app.state.metrics)
    app.state.context = context
    await context.replies.open()
    reader = asyncio.create_task(context.replies.run())
    expiry = asyncio.create_task(Expiry(context.redis, context.keys).run())
    notify(READY=1)
    yield
    await end(reader, expiry)
    with suppress(Failed):  # without Redis there is no stream to remove; it expires
        await context.replies.close()
    await context.fetcher.hops.close()
    await context.followers.client.aclose()
    await context.redis.aclose()
