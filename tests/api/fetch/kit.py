"""A fetcher as a test wants it: which ports and names it knows, and whether loopback is open to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

from api.fetch.budget import Budget
from api.fetch.dial import GuardedBackend
from api.fetch.fetcher import Fetcher
from api.fetch.hop import Hops, Timeouts
from api.fetch.proxies import Proxies
from api.fetch.rules import FetchRules

LOOPBACK = ip_network("127.0.0.0/8")
LIMIT = 1_000_000
PATIENT, DIRECT = Timeouts(2.0, 2.0), Proxies()


@dataclass
class Resolver:
    """``names`` are what it knows: the addresses of each look-up in turn, the last ones stay."""

    names: Mapping[str, list[Sequence[str]]]
    looked_up: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise OSError(f"{host}:{port} is unknown")
        return list(answers.pop(0) if len(answers) > 1 else answers[0])


@dataclass
class Kit:
    """A fetcher, with a budget and what its resolver was asked."""

    fetcher: Fetcher
    resolver: Resolver
    budget: Budget = field(default_factory=lambda: Budget(2 * LIMIT, LIMIT))

    @property
    def looked_up(self) -> list[str]:
        return self.resolver.looked_up

    async def fetch(self, url: str, left_s: float = 60.0) -> bytes:
        return await self.fetcher.fetch(url, "image_data[0]", self.budget, left_s)


@asynccontextmanager
async def fetching(
    *ports: int,
    names: Mapping[str, list[Sequence[str]]] | None = None,
    inside: bool = True,
    timeouts: Timeouts = PATIENT,
    total_s: float = 10.0,
    proxies: Proxies = DIRECT,
    at_once: int = 32,
    connections: int = 64,
) -> AsyncIterator[Kit]:
    """A fetcher for the time of the block; ``inside`` says whether it may dial loopback.

    There are more ``connections`` than are fetched ``at_once``, so that it is seen which of the two bounds a fetch.
    """
    rules = FetchRules(networks=[LOOPBACK] if inside else [], ports=ports or (80, 443))
    resolver = Resolver(names or {})
    hops = Hops(GuardedBackend(rules, resolver.resolve), proxies, timeouts, connections)
    yield Kit(Fetcher(rules, hops, total_s, at_once), resolver)
    await hops.close()
