"""The janitor of a node: ends or replays what stands still, and frees what nobody holds.

It removes only what is provably dead: a block whose writer's or reader's lock file can be taken, or whose request
has ended. One janitor sweeps a node at a time; two would do no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from forebay.errors import Problem
from forebay.states import State
from forebay.task import BadTaskError
from forebay.ticket import Ticket
from handoff import nodes, record
from handoff.connection import Client, redis_failures
from handoff.keys import Keys
from handoff.media import RedisStore, Spool
from handoff.moves import End, Fence, Moves
from handoff.pool import BlockInfo, Pool, is_alive
from handoff.pool.owners import bury
from handoff.pool.table import HoldState
from handoff.record import Record
from handoff.requeue import requeue
from handoff.scripts import perform
from workers.driver import abandoned
from workers.reconcile import Surroundings, Verdict, judge

log = logging.getLogger(__name__)

_GRACE_S = 5.0  # between a block and the record that speaks of it there is at most one Redis call
_LEASE_MS = 10_000
_SPOOL_EVERY_S = 60.0


@dataclass(slots=True)
class Janitor:
    """Sweeps one node. ``tick`` is cheap when there is nothing to do."""

    me: str
    node: str
    folder: Path
    secret: bytes
    redis: Client
    moves: Moves
    pool: Pool
    store: Spool | RedisStore
    models: Sequence[str]
    _spool_swept_at: float = field(default_factory=time.monotonic)

    @property
    def keys(self) -> Keys:
        return self.moves.keys

    def tick(self) -> None:
        """One round, if it is our turn."""
        if not self._is_our_turn():
            return
        self._reconcile()
        for model in self.models:
            for rid in perform(self.redis, self.moves.lapse(self.node, model)):
                log.warning("lease lapsed, parked again", extra={"rid": rid, "model": model})
        self._purge()
        self._sweep_pool()
        bury(self.folder)
        self._sweep_spool()

    def _is_our_turn(self) -> bool:
        name = self.keys.janitor(self.node)
        with redis_failures():
            if self.redis.set(name, self.me, nx=True, px=_LEASE_MS):
                return True
            if self.redis.get(name) != self.me.encode():
                return False
            return bool(self.redis.pexpire(name, _LEASE_MS))

    def _reconcile(self) -> None:
        now_ms, rids = perform(self.redis, self.moves.overdue())
        if not rids:
            return
        around = Surroundings(
            self.node,
            now_ms,
            frozenset(nodes.live_nodes(self.redis, self.keys, now_ms)),
            partial(is_alive, self.folder),
            self._backlog,
        )
        for rid in rids:
            found = record.read(self.redis, self.keys, rid)
            if found is not None:
                self._act(found, judge(found, around))

    def _backlog(self, found: Record) -> int:
        with redis_failures():
            length: Any = self.redis.llen(self.keys.queue(found.node, found.lane))
        return int(length)

    def _act(self, found: Record, verdict: Verdict) -> None:
        if verdict is Verdict.LEAVE:
            return
        log.warning(verdict.value, extra={"rid": found.rid, "state": str(found.state), "attempt": found.attempt})
        if verdict is Verdict.EXPIRE:
            perform(self.redis, self.moves.finish(found.rid, Fence.seen(found.seen), End.expired()))
        elif verdict is Verdict.ABANDON:
            end = End.of(abandoned(found.attempt))
            perform(self.redis, self.moves.finish(found.rid, Fence.seen(found.seen), end))
        elif found.model in self.models:
            self._queue_again(found, found.attempt + (verdict is Verdict.NEXT_ATTEMPT))

    def _queue_again(self, found: Record, attempt: int) -> None:
        try:
            move = requeue(self.moves, found, attempt, self.node, self.secret)
        except BadTaskError as error:  # nobody will ever read it, and the others must not wait behind it
            log.error("request failed", extra={"rid": found.rid}, exc_info=error)
            move = self.moves.finish(found.rid, Fence.seen(found.seen), End.of(Problem.of(error)))
        perform(self.redis, move)

    def _purge(self) -> None:
        """Free blocks of requests that ended while parked."""
        for _ in range(1000):
            with redis_failures():
                packed: Any = self.redis.rpop(self.keys.purge(self.node))
            if packed is None:
                return
            for handle in Ticket.unpack(packed).blocks:
                self.pool.free(handle)

    def _sweep_pool(self) -> None:
        for info in self.pool.blocks():
            if self._is_orphan(info) and self.pool.free_if(info):
                extra = {"rid": info.rid, "state": info.state.name, "size_bytes": info.handle.length}
                log.warning("orphaned block freed", extra=extra)

    def _is_orphan(self, info: BlockInfo) -> bool:
        if info.state is HoldState.WRITING:
            return not is_alive(self.folder, info.owner)
        if info.state is HoldState.READING and is_alive(self.folder, info.reader):
            return False
        return time.time() - info.since > _GRACE_S and not self._is_spoken_for(info)

    def _is_spoken_for(self, info: BlockInfo) -> bool:
        """Whether a live record still leads to a parked or read block."""
        found = record.read(self.redis, self.keys, info.rid)
        if found is None or found.attempt != info.attempt:
            return False
        # A worker marks its blocks parked just before it parks the ticket.
        return found.state in (State.PARKED, State.ADMITTED) or (
            found.state is State.PROCESSING and is_alive(self.folder, found.owner)
        )

    def _sweep_spool(self) -> None:
        if isinstance(self.store, Spool) and time.monotonic() - self._spool_swept_at > _SPOOL_EVERY_S:
            self._spool_swept_at = time.monotonic()
            self.store.sweep()
