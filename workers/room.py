"""Room in the pool for one request: taken at once where there is some, waited for in line where there is none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from forebay.errors import Failed
from handoff.pool import Block, Pool

log = logging.getLogger(__name__)

_FIRST_NAP_S, _LONGEST_NAP_S = 0.002, 0.05
_ASK_EVERY_S = 0.5  # whether the request is still wanted: one that was cancelled leaves the line


class Room:
    """Where one request gets its blocks. Who waits, waits in line, and no longer than ``give_up_at``."""

    def __init__(
        self, pool: Pool, rid: str, attempt: int, give_up_at: float, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self._pool = pool
        self._is_wanted = is_wanted
        self._rid = rid
        self._attempt = attempt
        self.give_up_at = give_up_at
        self.waited_s = 0.0

    def take(self, sizes: Sequence[int], *, jumps: bool) -> list[Block]:
        """A block of each size, all of them or none.

        Args:
            sizes: bytes.
            jumps: whether the request goes before the line: it holds blocks that others may wait for.

        Raises:
            Failed: ``pool_full``, with what is needed and what is free, when there was no room in time.
        """
        blocks = self._pool.allocate_all(sizes, self._rid, self._attempt, jumps=jumps)
        return blocks or self._wait(sizes, jumps=jumps)

    def take_now(self, sizes: Sequence[int]) -> list[Block] | None:
        """A block of each size, all of them or none; ``None`` when there is no room now, or others wait for some."""
        return self._pool.allocate_all(sizes, self._rid, self._attempt)

    def _wait(self, sizes: Sequence[int], *, jumps: bool) -> list[Block]:
        began = time.monotonic()
        log.warning("waiting for room in the pool", extra={"rid": self._rid, "size_bytes": sum(sizes)})
        turn = self._pool.join_line(sum(sizes))
        try:
            blocks = self._try_until_late(sizes, turn, jumps=jumps)
        finally:
            spent = time.monotonic() - began
            self.waited_s += spent
            self._pool.leave_line(turn, spent)
        if blocks is None:
            raise self._refusal(sum(sizes))
        log.info("room found", extra={"rid": self._rid, "waited_s": round(spent, 3)})
        return blocks

    def _refusal(self, size: int) -> Failed:
        stats = self._pool.stats()
        others = f"; {stats.waiting} more wait for room" if stats.waiting else ""
        message = f"no room for {size} bytes of features; {stats.free_bytes} are free in the pool{others}"
        return Failed("pool_full", message, status=503, retry_after_s=5)

    def _try_until_late(self, sizes: Sequence[int], turn: int, *, jumps: bool) -> list[Block] | None:
        nap = _FIRST_NAP_S
        asked_at = time.monotonic()
        while time.monotonic() < self.give_up_at:
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP_S)
            if time.monotonic() - asked_at > _ASK_EVERY_S:
                asked_at = time.monotonic()
                if not self._is_wanted():
                    raise Failed("cancelled", "the request has ended while it waited for room", status=499)
            blocks = self._pool.allocate_all(sizes, self._rid, self._attempt, turn=turn, jumps=jumps)
            if blocks is not None:
                return blocks
        return None
