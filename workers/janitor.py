"""The janitor of a node: ends or replays what stands still, and frees what nobody holds.

It removes only what is provably dead; ``sweep.py`` says what that is. One janitor sweeps a node at a time; two would do
no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forebay.errors import Problem
from forebay.task import BadTaskError, NewerTaskError
from forebay.ticket import Ticket
from handoff import nodes, record
from handoff.connection import Client, redis_failures
from handoff.keys import Keys
from handoff.media import RedisStore, Spool
from handoff.move_replies import LOOKS_AT_ONCE, Moved
from handoff.moves import RECHECK_MS, End, Fence, Moves
from handoff.nodes import SILENT_MS
from handoff.pool import Pool, is_alive, is_at
from handoff.record import Record
from handoff.requeue import requeue, resend
from handoff.scripts import Move, perform, perform_all
from handoff.slot import takers
from workers.abandon import Abandoner
from workers.heir import Heir
from workers.job import work_name
from workers.reconcile import Surroundings, Verdict, judge, may_be_lost
from workers.sweep import Sweep, has_just_died

log = logging.getLogger(__name__)

_LEASE_MS = 10_000
_SPOOL_EVERY_S = 60.0
_MOST_STEPS = 5  # of one kind in a round: all requests have their turn, and a round its end
_LISTEN_S = SILENT_MS / 1000  # so long it must have been here itself before it calls another node silent
_TAKE_OVER_EVERY_S = RECHECK_MS / 1000  # it asks for every other node
_PAUSE_S = 5.0  # between two rounds: it was away, or Redis was


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
    _here_since: float = 0.0
    _ticked_at: float = -_PAUSE_S
    _taken_over_at: float = -_TAKE_OVER_EVERY_S

    @property
    def keys(self) -> Keys:
        return self.moves.keys

    def tick(self) -> None:
        """One round, if it is our turn."""
        if not self._is_our_turn():
            return
        has_listened = self._has_listened()
        self._return_taken()
        self._expire()
        self._reconcile()
        if has_listened and time.monotonic() - self._taken_over_at >= _TAKE_OVER_EVERY_S:
            self._taken_over_at = time.monotonic()
            self._take_over()
        self._lapse()
        self._purge()
        for finding in self.sweep.findings():
            if finding.remove():
                extra = {"what": finding.what, "which": finding.name, "why": finding.why}
                level = logging.WARNING if finding.size_bytes else logging.INFO  # a dead process' lock file is no loss
                log.log(level, "swept", extra=extra | {"size_bytes": finding.size_bytes})
        self._sweep_spool()

    @property
    def sweep(self) -> Sweep:
        """What looks for that which nobody holds."""
        return Sweep(self.folder, self.pool, self.redis, self.keys)

    @property
    def _abandoner(self) -> Abandoner:
        return Abandoner(self.redis, self.moves, self.node, self.secret)

    def _is_our_turn(self) -> bool:
        name = self.keys.janitor(self.node)
        with redis_failures():
            if self.redis.set(name, self.me, nx=True, px=_LEASE_MS):
                return True
            held_by: Any = self.redis.get(name)
            if held_by == self.me.encode():
                return bool(self.redis.pexpire(name, _LEASE_MS))
            if held_by is None or is_alive(self.folder, held_by.decode()):
                return False
            # A worker and its janitor die together, and somebody may wait for the room that the dead take up.
            return bool(self.redis.set(name, self.me, px=_LEASE_MS))

    def _return_taken(self) -> None:
        """Put back what workers have taken and died over, before anything is taken for lost."""
        heir = Heir(self._abandoner, self.secret)
        for life in self.dead_takers():
            heir.inherit(life)

    def dead_takers(self) -> list[str]:
        """Lives that have ended, of workers that may have messages in hand."""
        return [life for life in takers(self.redis, self.keys, self.node) if not is_alive(self.folder, life)]

    def _has_listened(self) -> bool:
        """Whether it has been here for long enough to know who is silent: after an outage of Redis everybody is."""
        now = time.monotonic()
        if now - self._ticked_at >= _PAUSE_S:
            self._here_since = now
        self._ticked_at = now
        return now - self._here_since >= _LISTEN_S

    def _expire(self) -> None:
        for _ in range(_MOST_STEPS):
            expired = perform(self.redis, self.moves.expire())
            for rid, state in expired.ended:
                log.warning("expire", extra={"rid": rid, "state": state})
            if not expired.has_more:
                return

    def _reconcile(self) -> None:
        """Look at what is this node's."""
        for model in self.models:
            for _ in range(_MOST_STEPS):
                now_ms, rids = perform(self.redis, self.moves.look(self.node, model))
                self._judge(now_ms, rids)
                if len(rids) < LOOKS_AT_ONCE:
                    break

    def _lapse(self) -> None:
        """Give what has lost its scheduler to the next one, or up."""
        for model in self.models:
            for rid in perform(self.redis, self.moves.lapse(self.node, model)):
                log.warning("lease lapsed, parked again", extra={"rid": rid, "model": model})
            worn = perform(self.redis, self.moves.worn(self.node, model))
            for found in record.read_all(self.redis, self.keys, worn):
                self._act(found, Verdict.ABANDON)

    def _take_over(self) -> None:
        """Look at what nobody looks at on other nodes."""
        for _ in range(_MOST_STEPS):
            now_ms, rids = perform(self.redis, self.moves.neglected(self.node, self.models, SILENT_MS))
            self._judge(now_ms, rids, frozenset(rids))
            if len(rids) < LOOKS_AT_ONCE:
                return

    def _judge(self, now_ms: int, rids: Sequence[str], neglected: frozenset[str] = frozenset()) -> None:
        if rids:
            for found, verdict in self.judgements(now_ms, rids, neglected):
                self._act(found, verdict)

    def judgements(
        self, now_ms: int, rids: Sequence[str], neglected: frozenset[str] = frozenset()
    ) -> Iterator[tuple[Record, Verdict]]:
        """What should become of each request; nothing is done about it."""
        found = record.read_all(self.redis, self.keys, rids)
        around = Surroundings(
            self.node,
            now_ms,
            frozenset(nodes.live_nodes(self.redis, self.keys, now_ms)),
            neglected,
            self._is_at_work,
            self._lost_among([one.rid for one in found if may_be_lost(one, now_ms)]),
            self._has_features,
        )
        for one in found:
            yield one, judge(one, around)

    def _lost_among(self, rids: Sequence[str]) -> frozenset[str]:
        lost = perform_all(self.redis, [self.moves.is_lost(rid) for rid in rids])
        return frozenset(rid for rid, is_lost in zip(rids, lost, strict=True) if is_lost)

    def _is_at_work(self, found: Record) -> bool:
        """Or has just died over an item: its parent counts that and puts the message back before anybody else tries."""
        work = work_name(found.rid, found.token)
        return is_at(self.folder, found.owner, work) or has_just_died(self.folder, found.owner)

    def _has_features(self, found: Record) -> bool:
        try:
            return all(map(self.pool.is_current, Ticket.unpack(found.ticket).blocks))
        except ValueError:  # a ticket of another release: no scheduler of ours could read it either
            return False

    def _act(self, found: Record, verdict: Verdict) -> None:
        if verdict is Verdict.LEAVE:
            return
        told = {"rid": found.rid, "model": found.model, "state": str(found.state), "attempt": found.attempt}
        log.warning(verdict.value, extra=told)
        if verdict is Verdict.EXPIRE:
            perform(self.redis, self.moves.finish(found.rid, Fence.seen(found.seen), End.expired()))
        elif verdict is Verdict.ABANDON:
            self._abandoner.abandon(found.rid, Fence.seen(found.seen))
        elif verdict is Verdict.GIVE_UP:
            perform(self.redis, self.moves.finish(found.rid, Fence.seen(found.seen), End.of(_given_up(found.resent))))
        else:
            self._queue_again(found, verdict)

    def _queue_again(self, found: Record, verdict: Verdict) -> None:
        try:
            move: Move[Moved] = (
                resend(self.moves, found, self.secret)
                if verdict is Verdict.SEND_AGAIN
                else requeue(self.moves, found, found.attempt + 1, self.node, self.secret)
            )
        except NewerTaskError as error:  # a janitor of that release will, when this node has one
            log.warning("request left to a later release", extra={"rid": found.rid, "reason": str(error)})
            return
        except BadTaskError as error:  # nobody will ever read it, and the others must not wait behind it
            log.error("request failed", extra={"rid": found.rid, "model": found.model}, exc_info=error)
            move = self.moves.finish(found.rid, Fence.seen(found.seen), End.of(Problem.of(error)))
        perform(self.redis, move)

    def _purge(self) -> None:
        """Free blocks of requests that ended while parked.

        They are taken off the list first. Should the reply be lost on its way, or the list have had its end while the
        node was away, the sweep finds seconds later that no live request leads to those blocks.
        """
        for _ in range(_MOST_STEPS):
            with redis_failures():
                popped: Any = self.redis.rpop(self.keys.purge(self.node), LOOKS_AT_ONCE)
            for packed in popped or ():
                for handle in Ticket.unpack(packed).blocks:
                    self.pool.free(handle)
            if len(popped or ()) < LOOKS_AT_ONCE:
                return

    def _sweep_spool(self) -> None:
        if isinstance(self.store, Spool) and time.monotonic() - self._spool_swept_at > _SPOOL_EVERY_S:
            self._spool_swept_at = time.monotonic()
            self.store.sweep()


def _given_up(resent: int) -> Problem:
    """Its media are not named in quarantine: no worker had begun with them."""
    detail = f"abandoned after its message was lost {resent + 1} times before a worker had begun"
    return Problem("abandoned", detail, 500)
