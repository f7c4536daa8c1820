"""Those who follow requests: each of them keeps one connection to Redis waiting, so they are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from forebay.errors import Failed
from handoff.connection import AsyncClient

MOST = 512  # of one process; Redis' own limit is ten thousand connections by default
MOST_OF_A_TENANT = 128  # so that no tenant keeps the others out; where there are no keys, all are one


@dataclass(slots=True)
class Followers:
    """How many follow now, by tenant, and the client whose connections they keep."""

    client: AsyncClient
    now: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def one_more(self, tenant: str) -> Iterator[None]:
        """For the time that somebody follows.

        Raises:
            Failed: as many do as may.
        """
        if tenant and self.now[tenant] >= MOST_OF_A_TENANT:
            raise _too_many(f"{self.now[tenant]} callers follow your requests", MOST_OF_A_TENANT)
        if self.now.total() >= MOST:
            raise _too_many(f"{self.now.total()} callers follow requests", MOST)
        self.now[tenant] += 1
        try:
            yield
        finally:
            self.now[tenant] -= 1


def _too_many(who: str, limit: int) -> Failed:
    message = f"{who} at this process; the limit is {limit}"
    return Failed("too_many_followers", message, status=503, retry_after_s=2)
