"""The face for engines: poll the index, map features without a copy, release them.

A serving system of its own uses this class alone: ``poll``, ``Taken.admission``, ``release``.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from forebay.engine import Admission, AdmittedItem, Room
from forebay.errors import Failed
from forebay.features import Int64Array, Positions
from forebay.ticket import ArrayAt, Handle, Ticket, TicketItem
from handoff.connection import MAX_BLOCK_MS, Client, redis_failures
from handoff.move_replies import Claimed
from handoff.moves import End, Fence, Moves
from handoff.pool import Block, LiveViewError, Pool, StaleHandleError
from handoff.scripts import perform
from scheduler.ranks import Ranks, Share, Turn, reader_of

log = logging.getLogger(__name__)

ANY_SIZE = 2**53  # as token room: whatever its size
_KEEP_EVERY_S = 0.5


@dataclass(slots=True, eq=False)
class Taken:
    """A claimed request with its features mapped. ``admission`` is dropped on release, and its arrays with it."""

    claim: str
    ticket: Ticket
    admission: Admission | None
    blocks: tuple[Block, ...] = ()

    @property
    def rid(self) -> str:
        return self.ticket.rid


@dataclass(slots=True)
class Intake:
    """Claims tickets of one model on one node, under leases, for one scheduler process.

    With several ranks each has an intake of its own; rank 0 claims, and all map. ``opening.open_intake`` makes one.
    """

    redis: Client
    moves: Moves
    pool: Pool
    node: str
    model: str
    ranks: Ranks | None = None
    held: dict[str, Taken] = field(default_factory=dict)
    _lost: list[str] = field(default_factory=list)
    _kept_at: float = 0.0
    _lingering: list[Block] = field(default_factory=list)

    @property
    def scheduler(self) -> str:
        """The name under which this process holds claims and blocks."""
        return self.pool.owner

    def wait(self) -> None:
        """Sleep until something is parked, or a second has passed. Ranks that do not lead wait in ``poll``."""
        if self.ranks is not None and not self.ranks.leads:
            return
        with redis_failures():
            self.redis.blpop([self.moves.keys.wake(self.node, self.model)], MAX_BLOCK_MS / 1000)

    def poll(self, room: Room) -> tuple[list[Taken], list[Claimed]]:
        """Claim what fits the room, in order, and map it.

        With several ranks every rank calls this in step; only the room of rank 0 counts.

        Returns:
            What was taken, and what was claimed but whose features are gone or whose ticket cannot be read; the caller
            ends or replays the latter. Ranks other than 0 are never given any of these.

        Raises:
            Failed: Redis cannot be reached; nothing was claimed, and the other ranks are told so.
        """
        self._release_lingering()
        if self.ranks is not None:
            return self._poll_together(self.ranks, room)
        return self._claim(room)

    def _claim(self, room: Room) -> tuple[list[Taken], list[Claimed]]:
        if room.requests < 1 or room.tokens < 1:
            return [], []
        nonce = secrets.token_hex(8)
        move = self.moves.claim(self.scheduler, nonce, self.node, self.model, most=room.requests, tokens=room.tokens)
        taken, gone = [], []
        for claimed in perform(self.redis, move):
            try:
                ticket = Ticket.unpack(claimed.ticket)
                taken.append(self._map(claimed.claim, ticket, ticket.blocks, claimed.lapses))
            except (StaleHandleError, ValueError) as error:
                log.error("features gone", extra={"rid": claimed.rid, "reason": str(error)})
                gone.append(claimed)
        for one in taken:
            self._hold(one)
        self._release_lingering()
        return taken, gone

    def _hold(self, taken: Taken) -> None:
        """Keep what was taken. What we held of the same request is superseded: its lease had lapsed meanwhile."""
        earlier = self.held.get(taken.rid)
        self.held[taken.rid] = taken
        if earlier is not None:
            self.release(earlier)

    def _poll_together(self, ranks: Ranks, room: Room) -> tuple[list[Taken], list[Claimed]]:
        if not ranks.leads:
            return self._follow(ranks), []
        shares: list[Share] = []
        try:
            claimed, gone = self._claim(room)
            taken = [one for one in claimed if self._shared(one, ranks, shares, gone)]
            self._keep_now_and_then()
        finally:
            # Whatever happens here, the others wait for a word.
            ranks.broadcast(Turn(shares, self._lost).pack())
        return taken, gone

    def _follow(self, ranks: Ranks) -> list[Taken]:
        turn = Turn.unpack(ranks.broadcast(None))
        own = ranks.rank - 1
        taken = [self._map(one.claim, Ticket.unpack(one.ticket), one.handles[own]) for one in turn.shares]
        for one in taken:
            self._hold(one)
        self._lost += turn.lost
        return taken

    def _shared(self, taken: Taken, ranks: Ranks, shares: list[Share], gone: list[Claimed]) -> bool:
        """Take a hold on each block for each other rank, before any of them is told."""
        readers = [reader_of(self.scheduler, rank) for rank in range(1, ranks.count)]
        try:
            handles = self.pool.share([block.handle for block in taken.blocks], readers)
        except StaleHandleError as error:
            log.error("features cannot be shared", extra={"rid": taken.rid, "reason": str(error)})
            self.release(taken)
            gone.append(Claimed(taken.rid, taken.claim, b""))
            return False
        shares.append(Share(taken.claim, taken.ticket.pack(), handles))
        return True

    def _keep_now_and_then(self) -> None:
        if time.monotonic() - self._kept_at <= _KEEP_EVERY_S:
            return
        try:
            self._lost = self.keep()
            self._kept_at = time.monotonic()
        except Failed as error:  # what was claimed is told to every rank all the same; the next poll keeps
            log.warning("leases not extended", extra={"reason": error.message})

    def renew(self) -> list[Taken]:
        """Extend the leases of everything held; what is no longer ours comes back, still mapped.

        With several ranks the leases are extended by ``poll``, and this says what it has learnt, on every rank alike.
        """
        lost, self._lost = (self.keep(), []) if self.ranks is None else (self._lost, [])
        return [self.held[rid] for rid in lost if rid in self.held]

    def keep(self) -> list[str]:
        """Extend the leases and name what is lost. Another thread may do this while an engine's step lasts."""
        claims = {rid: taken.claim for rid, taken in self.held.copy().items()}
        if not claims:
            return []
        return perform(self.redis, self.moves.renew(self.scheduler, self.node, self.model, claims))

    def end(self, taken: Taken, end: End) -> bool:
        """Write the end of a request; ``False`` when it is no longer ours. Rank 0 does this, after ``release``.

        Raises:
            Failed: Redis cannot be reached; the same call may be made again.
        """
        return perform(self.redis, self.moves.finish(taken.rid, Fence.claim(taken.claim), end)).ok

    def release(self, taken: Taken) -> None:
        """Free the features of a request. Whoever keeps an array keeps its block, until the array goes."""
        if self.held.get(taken.rid) is taken:
            del self.held[taken.rid]
        taken.admission = None
        self._lingering += taken.blocks
        taken.blocks = ()
        self._release_lingering()
        if self._lingering:
            log.warning("features still referenced", extra={"rid": taken.rid, "blocks": len(self._lingering)})

    def _release_lingering(self) -> None:
        """Give up the holds that nothing here looks through any more.

        A ticket that was claimed again after a pause leads to the hold that we had on it before: the last of all that
        look through a hold gives it up.
        """
        released: list[Block] = []
        still: list[Block] = []
        for block in self._lingering:
            (released if _let_go(block) else still).append(block)
        self._lingering = still
        in_use = {block.handle for block in still}
        in_use |= {block.handle for taken in self.held.values() for block in taken.blocks}
        for block in released:
            if block.handle not in in_use:
                self.pool.free(block.handle)

    def _map(self, claim: str, ticket: Ticket, handles: Sequence[Handle], lapses: int = 0) -> Taken:
        blocks: list[Block] = []
        try:
            blocks.extend(self.pool.take(handle, lapses) for handle in handles)
            return Taken(claim, ticket, admission_of(ticket, blocks), tuple(blocks))
        except (StaleHandleError, ValueError):
            self._lingering += blocks  # ours by now: while we live, nobody else would free them
            raise


def _let_go(block: Block) -> bool:
    try:
        block.release()
    except LiveViewError:
        return False
    return True


def admission_of(ticket: Ticket, blocks: Sequence[Block]) -> Admission:
    """What an engine gets of a ticket: views of its blocks, and nothing copied."""

    def view(at: ArrayAt) -> Any:
        return blocks[at.block].array(at)

    ids: Int64Array = np.frombuffer(ticket.ids, "<i8") if isinstance(ticket.ids, bytes) else view(ticket.ids)
    positions = None if ticket.mrope is None else Positions(view(ticket.mrope), ticket.mrope_delta)
    items = tuple(_item(item, view(item.feature)) for item in ticket.items)
    return Admission(ticket.rid, ids, items, positions, ticket.sampling)


def _item(item: TicketItem, array: Any) -> AdmittedItem:
    specific = dict(item.model_specific)
    return AdmittedItem(item.modality, array, item.feature.dtype, item.spans, item.hash, specific, item.normalisation)
