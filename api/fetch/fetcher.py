"""Fetching one item: redirects hop by hop, another try where that may help, and an end in any case."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from api.fetch.address import Address, read_address
from api.fetch.body import read_body
from api.fetch.budget import Budget
from api.fetch.dial import BlockedError
from api.fetch.hop import Hops, header_of, list_of
from api.fetch.rules import FetchRules
from api.fetch.trouble import Trouble
from forebay.errors import Rejected

PERMITS = 32  # of one process, unless it is said: its connections, and the bodies in its memory
_MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({408, 425, 429})
_PROXY_WANTS_A_USER = 407
_PAUSES_S = (0.2, 0.8)


@dataclass(slots=True)
class Fetcher:
    """Fetches for one process.

    Attributes:
        total_s: for one item, with every redirect and every try.
        at_once: items; so many bodies may lie in memory.
    """

    rules: FetchRules
    hops: Hops
    total_s: float = 30.0
    at_once: int = PERMITS
    _permits: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._permits = asyncio.Semaphore(self.at_once)

    async def fetch(self, url: str, param: str, budget: Budget, left_s: float) -> bytes:
        """The bytes behind a URL.

        Args:
            url: as the caller wrote it.
            param: where.
            budget: of the request.
            left_s: how long the request may still take.

        Raises:
            Rejected: no URL, a blocked one, nothing there, or too many bytes.
            Failed: ``media_fetch_failed`` or ``media_fetch_timeout``.
        """
        if not self.rules.is_on:
            raise Rejected("unsupported_source", f"{param}: URLs are not fetched here; send the bytes", param=param)
        address = read_address(url, param)
        limit_s = min(self.total_s, left_s)
        give_up_at = time.monotonic() + limit_s
        try:
            async with asyncio.timeout(limit_s), self._permits:
                return await self._try(address, param, budget, give_up_at)
        except TimeoutError as error:
            slow = Trouble(f"it took longer than {limit_s:.3g} s", is_slow=True)
            raise slow.as_failure(param, address.shown) from error

    async def _try(self, address: Address, param: str, budget: Budget, give_up_at: float) -> bytes:
        for pause_s in (*_PAUSES_S, None):
            try:
                return await self._follow(address, param, budget)
            except Trouble as trouble:
                if pause_s is None or not trouble.is_passing or time.monotonic() + pause_s > give_up_at:
                    raise trouble.as_failure(param, address.shown) from trouble
                await asyncio.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    async def _follow(self, address: Address, param: str, budget: Budget) -> bytes:
        for _ in range(_MOST_REDIRECTS + 1):
            found = await self._hop(address, param, budget)
            if isinstance(found, bytes):
                return found
            address = found
        message = f"{param}: too many redirects; the limit is {_MOST_REDIRECTS}"
        raise Rejected("too_many_redirects", message, param=param)

    async def _hop(self, address: Address, param: str, budget: Budget) -> bytes | Address:
        """The bytes, or where they are instead."""
        if not self.rules.allows(address.host, address.port):
            raise _blocked(address, param)
        try:
            async with self.hops.ask(address) as response:
                if response.status in _REDIRECTS:
                    return address.follow(_location(header_of(response, b"location")), param)
                _check_status(response.status, address, param)
                length = header_of(response, b"content-length")
                announced = int(length[:18]) if length.isdigit() else None
                encoding = list_of(response, b"content-encoding").decode("latin-1")
                return await read_body(response.aiter_stream(), encoding, announced, budget, param)
        except BlockedError as error:
            raise _blocked(address, param) from error


def _location(given: bytes) -> bytes:
    if not given:
        raise Trouble("it redirects to nowhere")
    return given


def _check_status(status: int, address: Address, param: str) -> None:
    """Nothing there is the caller's mistake; trouble over there is not.

    Raises:
        Rejected: any 4xx that will not pass.
        Trouble: everything else that is no success.
    """
    if 200 <= status < 300:
        return
    if status == _PROXY_WANTS_A_USER:  # what is wrong there the deployment can mend, and no caller
        raise Trouble(f"its proxy answered {status}")
    if 400 <= status < 500 and status not in _PASSING:
        message = f"{param}: {address.shown} answered {status}"
        raise Rejected("media_unavailable", message, param=param)
    raise Trouble(f"it answered {status}", is_passing=status in _PASSING or status >= 500)


def _blocked(address: Address, param: str) -> Rejected:
    return Rejected("blocked_address", f"{param}: {address.shown} is a blocked address", param=param)
