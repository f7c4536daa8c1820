"""Those who follow requests: each of them keeps one connection to Redis waiting, so they are counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from forebay.errors import Failed
from handoff.connection import AsyncClient

MOST = 512  # of one process; Redis' own limit is ten thousand connections by default


@dataclass(slots=True)
class Followers:
    """How many follow now, and the client whose connections they keep."""

    client: AsyncClient
    now: int = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """For the time that somebody follows.

        Raises:
            Failed: as many do as may.
        """
        if self.now >= MOST:
            message = f"{self.now} callers follow requests of this process; the limit is {MOST}"
            raise Failed("too_many_followers", message, status=503, retry_after_s=2)
        self.now += 1
        try:
            yield
        finally:
            self.now -= 1
