"""A checked request on its way in: resolve media, write the record, store the media, put the task on its queue."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from api.answers import EndedBadly
from api.incoming import Incoming, Source
from api.register import Register
from api.replies import Replies, Watch
from api.routing import choose_lane, choose_model, choose_node
from api.settings import ApiSettings
from api.sources import resolve
from forebay.errors import Failed, Problem, Rejected
from forebay.media import digest_of
from forebay.task import Kind, MediaRef, Task, TaskBody, seal
from handoff.connection import AsyncClient
from handoff.media import MediaStore, RedisStore
from handoff.moves import Admit, End, Fence, Moves
from handoff.requeue import queue_entry
from handoff.scripts import perform_async

_OFF_LOOP_BYTES = 256 << 10  # hashing and writing more than this would hold up other requests


@dataclass(frozen=True, slots=True)
class Submitted:
    """A request that is on its way."""

    rid: str
    token: str
    model: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class _Resolved:
    ref: MediaRef
    data: bytes


@dataclass(frozen=True, slots=True)
class Submission:
    """What submitting needs; one a process."""

    settings: ApiSettings
    redis: AsyncClient
    moves: Moves
    store: MediaStore
    replies: Replies
    register: Register
    cancelling: set[asyncio.Future[str]] = field(default_factory=set)
    """Cancellations under way, which the end of their request must not cut short."""

    async def submit(self, incoming: Incoming, kind: Kind) -> Submitted:
        """Send a request on its way without waiting for its end.

        Raises:
            Rejected: the caller's mistake; nothing is left behind.
            Failed: no worker, no room, or no Redis.
        """
        async with self._accepted(incoming, kind, reply=False) as (submitted, task):
            await self._enqueue(submitted, task)
        return submitted

    @asynccontextmanager
    async def watched(self, incoming: Incoming, kind: Kind) -> AsyncIterator[tuple[Submitted, Watch]]:
        """Send a request on its way and watch it. Leaving early cancels it."""
        async with self._accepted(incoming, kind, reply=True) as (submitted, task):
            with self.replies.watch(submitted.rid, submitted.token) as watch:
                await self._enqueue(submitted, task)
                yield submitted, watch

    async def cancel(self, rid: str) -> str:
        """Cancel a request; the state it was in, empty when unknown."""
        return await perform_async(self.redis, self.moves.cancel(rid))

    @asynccontextmanager
    async def _accepted(
        self, incoming: Incoming, kind: Kind, *, reply: bool
    ) -> AsyncIterator[tuple[Submitted, _Prepared]]:
        """The record stands for the time of the block, and longer if the request gets queued in it."""
        nodes = await self.register.nodes()
        model = choose_model(incoming.model, nodes)
        node = choose_node(model, kind, nodes)
        media = await self._resolve(incoming.sources)
        submitted = await self._accept(incoming, kind, model, reply)
        try:
            yield submitted, _Prepared(_body(incoming, kind, media), media, node, incoming.priority)
        except EndedBadly:
            raise
        except Exception as error:
            # Takes effect only while the request is not queued; afterwards it has an owner who ends it.
            await self._end(submitted, Problem.of(error))
            raise
        except BaseException:  # the caller has gone, or this process stops
            cancelling = asyncio.ensure_future(self.cancel(submitted.rid))
            self.cancelling.add(cancelling)
            cancelling.add_done_callback(self.cancelling.discard)
            await asyncio.shield(cancelling)
            raise

    async def _resolve(self, sources: Sequence[Source]) -> list[_Resolved]:
        total = sum(len(source.text) for source in sources)
        if total <= _OFF_LOOP_BYTES * 2:
            return [self._resolve_one(source) for source in sources]
        return await asyncio.to_thread(lambda: [self._resolve_one(source) for source in sources])

    def _resolve_one(self, source: Source) -> _Resolved:
        data = resolve(source.text, source.param, self.settings.max_item_bytes)
        return _Resolved(MediaRef(source.modality, digest_of(data), len(data), source.param), data)

    async def _accept(self, incoming: Incoming, kind: Kind, model: str, reply: bool) -> Submitted:
        admit = Admit(
            rid=incoming.rid or secrets.token_hex(16),
            token=secrets.token_hex(8),
            model=model,
            kind=kind,
            priority=incoming.priority,
            reply_to=self.replies.name if reply else "",
            timeout_ms=incoming.timeout_ms or self.settings.timeout_ms,
            max_live=self.settings.max_live,
        )
        accepted = await perform_async(self.redis, self.moves.accept(admit))
        if accepted.outcome == "duplicate":
            message = f"request id {admit.rid!r} is already {accepted.state}"
            raise Rejected("duplicate_rid", message, param="rid", status=409)
        if accepted.outcome == "busy":
            message = f"{accepted.live} requests are under way; the limit is {admit.max_live}"
            raise Failed("overloaded", message, status=503, retry_after_s=1)
        return Submitted(admit.rid, admit.token, model, accepted.deadline_ms)

    async def _enqueue(self, submitted: Submitted, task: _Prepared) -> None:
        await self._put(task.media)
        lane, body = choose_lane([one.ref.size_bytes for one in task.media]), task.body.pack()
        first = Task(submitted.rid, submitted.token, 1, submitted.model, submitted.deadline_ms, task.priority, body)
        entry = queue_entry(first, task.body, task.node, lane, self.settings.secret)
        move = self.moves.enqueue(
            submitted.rid, submitted.token, seal(body, self.settings.secret), task.node, lane, entry
        )
        moved = await perform_async(self.redis, move)
        if not moved.ok and moved.state != "cancelled":  # a cancelled request has its end already
            raise Failed("not_queued", "the request could not be queued", status=503, retry_after_s=1)

    async def _put(self, media: Sequence[_Resolved]) -> None:
        for one in media:
            if isinstance(self.store, RedisStore) or len(one.data) > _OFF_LOOP_BYTES:
                await asyncio.to_thread(self.store.put, one.ref.digest, one.data)
            else:
                self.store.put(one.ref.digest, one.data)

    async def _end(self, submitted: Submitted, problem: Problem) -> None:
        move = self.moves.finish(submitted.rid, Fence.token(submitted.token), End.of(problem))
        await perform_async(self.redis, move)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A task that only lacks its place on a queue."""

    body: TaskBody
    media: Sequence[_Resolved]
    node: str
    priority: int


def _body(incoming: Incoming, kind: Kind, media: Sequence[_Resolved]) -> TaskBody:
    return TaskBody(
        kind=kind,
        prompt=incoming.prompt,
        media=tuple(one.ref for one in media),
        caller_hashes=incoming.caller_hashes,
        extensions=incoming.extensions,
        sampling=incoming.sampling,
        samples=incoming.samples,
        features=incoming.features,
    )
