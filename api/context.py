"""What a route needs, made once when the process starts."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from api.fetch.fetcher import Fetcher
from api.followers import Followers
from api.metrics import Metrics
from api.register import Register
from api.replies import Replies
from api.settings import ApiSettings
from api.submission import Submission
from api.uploads import Uploads
from handoff.connection import AsyncClient
from handoff.keys import Keys
from handoff.media import MediaStore


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of an API process."""

    settings: ApiSettings
    redis: AsyncClient
    keys: Keys
    store: MediaStore
    uploads: Uploads
    fetcher: Fetcher
    followers: Followers
    replies: Replies
    register: Register
    submission: Submission
    metrics: Metrics


def context_of(request: Request) -> Context:
    """The process' parts, from any route."""
    context: Context = request.app.state.context
    return context
