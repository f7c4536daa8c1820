"""A checked request on its way in: resolve media, write the record, store the media, put the task on its queue."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from api.answers import EndedBadly
from api.fetch.budget import Budget
from api.fetch.fetcher import Fetcher
from api.gathering import Gathered, Gathering
from api.incoming import Incoming
from api.register import Register
from api.replies import Replies, Watch
from api.routing import choose_lane, choose_model, choose_node
from api.settings import ApiSettings
from api.tasks import end
from api.uploads import Uploads
from forebay.errors import Failed, Problem, Rejected
from forebay.states import State
from forebay.task import Kind, Task, TaskBody, seal
from handoff.connection import AsyncClient
from handoff.move_replies import Accepted, Excess, Limit
from handoff.moves import LOG, Admit, End, Fence, Moves
from handoff.record import read_async
from handoff.requeue import queue_entry
from handoff.scripts import perform_async

_LOOK_S = 0.25  # between two looks at a request whose media are fetched and which nobody watches
_SOON_S = 1  # when a tenant whose requests are under way may try again: some end every second


@dataclass(frozen=True, slots=True)
class Submitted:
    """A request that is on its way: the caller's id of it, and the tier's.

    Attributes:
        state: ``queued``, or the end that came while its media were fetched.
    """

    rid: str
    inside: str
    token: str
    model: str
    deadline_ms: int
    state: str = State.QUEUED


@dataclass(frozen=True, slots=True)
class Submission:
    """What submitting needs; one a process."""

    settings: ApiSettings
    redis: AsyncClient
    moves: Moves
    uploads: Uploads
    fetcher: Fetcher
    replies: Replies
    register: Register
    cancelling: set[asyncio.Future[str]] = field(default_factory=set)
    """Cancellations under way, which the end of their request must not cut short."""

    def _gathering(self, incoming: Incoming) -> Gathering:
        budget = Budget(self.settings.max_request_bytes, self.settings.max_item_bytes)
        return Gathering(
            self.uploads,
            self.fetcher,
            self.settings.file_roots,
            budget,
            incoming.sources,
            incoming.shared,
            self.settings.precomputed_bytes,
        )

    async def submit(self, incoming: Incoming, kind: Kind) -> Submitted:
        """Send a request on its way without waiting for its end.

        Raises:
            Rejected: the caller's mistake; nothing is left behind.
            Failed: no worker, no room, or no Redis.
        """
        async with self._accepted(incoming, kind, LOG) as (submitted, task):
            await self._enqueue_until(partial(self._end_of, submitted), submitted, task)
        return submitted if task.is_queued else replace(submitted, state=await self._state_of(submitted))

    async def _end_of(self, submitted: Submitted) -> None:
        """Wait until a request that nobody watches has an end: somebody cancels it, or its time is over."""
        while await self._state_of(submitted) == State.ACCEPTED:  # noqa: ASYNC110 - the record is in Redis
            await asyncio.sleep(_LOOK_S)

    async def _state_of(self, submitted: Submitted) -> str:
        found = await read_async(self.redis, self.moves.keys, submitted.inside)
        return str(found.state) if found is not None and found.token == submitted.token else State.CANCELLED

    @asynccontextmanager
    async def watched(self, incoming: Incoming, kind: Kind) -> AsyncIterator[tuple[Submitted, Watch]]:
        """Send a request on its way and watch it. Leaving early cancels it."""
        async with self._accepted(incoming, kind, self.replies.name) as (submitted, task):
            with self.replies.watch(submitted.inside, submitted.token) as watch:
                await self._enqueue_until(watch.arrived.wait, submitted, task)
                yield submitted, watch

    async def cancel(self, inside: str, token: str = "") -> str:
        """Cancel a request by its name within the tier; the state it was in, empty when unknown.

        With a ``token`` it is that acceptance alone: its id may have been used again.
        """
        return await perform_async(self.redis, self.moves.cancel(inside, token))

    @asynccontextmanager
    async def _accepted(
        self, incoming: Incoming, kind: Kind, reply_to: str
    ) -> AsyncIterator[tuple[Submitted, _Prepared]]:
        """The record stands for the time of the block, and longer if the request gets queued in it."""
        nodes = await self.register.nodes()
        model = choose_model(incoming.model, nodes)
        node = choose_node(model, kind, nodes, self.register.had_engines())
        gathering = self._gathering(incoming)
        await gathering.begin(incoming.tenant)
        submitted = await self._accept(incoming, kind, model, reply_to, gathering.size_bytes)
        try:
            yield submitted, _Prepared(incoming, kind, gathering, node)
        except EndedBadly:
            raise
        except Exception as error:
            # Takes effect only while the request is not queued; afterwards it has an owner who ends it.
            await self._end(submitted, Problem.of(error))
            raise
        except BaseException:  # the caller has gone, or this process stops
            cancelling = asyncio.ensure_future(self.cancel(submitted.inside, submitted.token))
            self.cancelling.add(cancelling)
            cancelling.add_done_callback(self.cancelling.discard)
            await asyncio.shield(cancelling)
            raise

    async def _accept(self, incoming: Incoming, kind: Kind, model: str, reply_to: str, size_bytes: int) -> Submitted:
        rid = incoming.rid or secrets.token_hex(16)
        admit = Admit(
            rid=incoming.tenant.inside(rid),
            token=secrets.token_hex(8),
            model=model,
            kind=kind,
            priority=incoming.priority,
            reply_to=reply_to,
            timeout_ms=incoming.timeout_ms or self.settings.timeout_ms,
            max_live=self.settings.max_live,
            tenant=incoming.tenant.name,
            size_bytes=size_bytes,
            quota=incoming.tenant.quota,
        )
        accepted = await perform_async(self.redis, self.moves.accept(admit))
        if accepted.outcome != "ok":
            raise _refusal(accepted, rid, admit.max_live)
        return Submitted(rid, admit.rid, admit.token, model, accepted.deadline_ms)

    async def _enqueue_until(
        self, ended: Callable[[], Coroutine[Any, Any, Any]], submitted: Submitted, task: _Prepared
    ) -> None:
        """Queue a request; while its media are fetched it may be cancelled, or its deadline may pass."""
        if task.gathering.has_all:
            await self._enqueue(submitted, task)
            return
        queuing, ending = asyncio.create_task(self._enqueue(submitted, task)), asyncio.create_task(ended())
        try:
            await asyncio.wait({queuing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if queuing.done():
                queuing.result()
        finally:
            await end(queuing, ending)

    async def _enqueue(self, submitted: Submitted, task: _Prepared) -> None:
        gathering = task.gathering
        if not gathering.has_all:
            await gathering.fetch_rest((task.incoming.timeout_ms or self.settings.timeout_ms) / 1000)
        await gathering.store_all()
        media = gathering.items
        body = _body(task.incoming, task.kind, media)
        # A plan reads headers alone: it waits behind no picture.
        lane = "text" if task.kind is Kind.PLAN else choose_lane([one.ref.size_bytes for one in media])
        packed, priority = body.pack(), task.incoming.priority
        first = Task(submitted.inside, submitted.token, 1, submitted.model, submitted.deadline_ms, priority, packed)
        entry = queue_entry(first, body, task.node, lane, self.settings.secret)
        move = self.moves.enqueue(
            submitted.inside,
            submitted.token,
            seal(packed, self.settings.secret),
            task.node,
            lane,
            entry,
            size_bytes=gathering.size_bytes,
            most_bytes=task.incoming.tenant.quota.size_bytes,
        )
        moved = await perform_async(self.redis, move)
        if moved.excess is not None:  # what was fetched is more than was known when it was accepted
            raise _over_quota(moved.excess)
        task.is_queued = moved.ok
        if not moved.ok and moved.state not in ("cancelled", "expired"):  # such a request has its end already
            raise Failed("not_queued", "the request could not be queued", status=503, retry_after_s=1)

    async def _end(self, submitted: Submitted, problem: Problem) -> None:
        move = self.moves.finish(submitted.inside, Fence.token(submitted.token), End.of(problem))
        await perform_async(self.redis, move)


@dataclass(slots=True)
class _Prepared:
    """A request that lacks what is to be fetched, and its place on a queue."""

    incoming: Incoming
    kind: Kind
    gathering: Gathering
    node: str
    is_queued: bool = False


def _body(incoming: Incoming, kind: Kind, media: Sequence[Gathered]) -> TaskBody:
    return TaskBody(
        kind=kind,
        prompt=incoming.prompt,
        media=tuple(one.ref for one in media),
        caller_hashes=incoming.caller_hashes,
        extensions=incoming.extensions,
        sampling=incoming.sampling,
        samples=incoming.samples,
        features=incoming.features,
        tenant=incoming.tenant.name,
    )


def _refusal(accepted: Accepted, rid: str, max_live: int) -> Rejected | Failed:
    """Why a request was not accepted."""
    if accepted.outcome == "duplicate":
        return Rejected("duplicate_rid", f"request id {rid!r} is already {accepted.state}", param="rid", status=409)
    if accepted.excess is not None:
        return _over_quota(accepted.excess)
    message = f"{accepted.live} requests are under way; the limit is {max_live}"
    return Failed("overloaded", message, status=503, retry_after_s=_SOON_S)


def _over_quota(excess: Excess) -> Rejected:
    wait_s = max(_SOON_S, math.ceil(excess.wait_ms / 1000))
    match excess.limit:
        case Limit.LIVE:
            message = f"{excess.wanted} of your requests are under way; your limit is {excess.allowed:g}"
            return Rejected("too_many_requests", message, status=429, retry_after_s=wait_s)
        case Limit.BYTES:
            message = f"your requests would have {excess.wanted} bytes of media under way; your limit is "
            message += f"{excess.allowed:.0f}"
            return Rejected("too_many_bytes", message, status=429, retry_after_s=wait_s)
        case Limit.RATE:
            message = f"your limit is {excess.allowed:g} requests a second; the next may come in {excess.wait_ms} ms"
            return Rejected("rate_limited", message, status=429, retry_after_s=wait_s)
