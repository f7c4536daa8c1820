"""One task from its message to its end: claim, fetch, decode, process, write, park. The I/O around ``forebay.drive``.

Whatever happens, the request gets its one end or stays where a replay finds it, and the pool gets its block back
unless a ticket owns it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from billiard.exceptions import SoftTimeLimitExceeded

from forebay.errors import Failed, Problem, Rejected
from forebay.features import Output
from forebay.plugins import LoadedProcessor
from forebay.states import State
from forebay.task import BadTaskError, Kind, NewerTaskError, Task, TaskBody, unseal
from handoff import record
from handoff.connection import Client
from handoff.media import MediaStore
from handoff.move_replies import Begun
from handoff.moves import End, Fence, Moves, Seen
from handoff.pool import FeatureCache, Owner, Pool, forget_frames, is_at
from handoff.pool.table import Number
from handoff.quarantine import Entry, set_aside
from handoff.queue import LIMITS
from handoff.refused import Refused
from handoff.scripts import Move, perform
from workers.abandon import Abandoner
from workers.item_limits import NO_LIMITS, ItemLimits
from workers.job import Job, work_name
from workers.loader import Loader
from workers.making import Maker
from workers.pace import Pace
from workers.planning import Planner
from workers.reservation import Lease, Reservation
from workers.results import describe, make_ticket
from workers.shadow.offering import Offering
from workers.timings import Timings
from workers.unwanted import UnwantedError

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 30.0  # for room, or for a sibling's work; always below the task's soft time limit


@dataclass(slots=True)
class Driver:
    """Everything one worker child needs to do a task. One task at a time."""

    node: str
    secret: bytes
    redis: Client
    moves: Moves
    pool: Pool
    store: MediaStore
    processors: Mapping[str, LoadedProcessor]
    life: Owner
    cache: FeatureCache | None = None
    """``None`` where the cache is off."""
    soft_limit_s: float = LIMITS.soft_s
    item_limits: ItemLimits = NO_LIMITS
    video_salvage: bool = False
    """Whether a damaged video is taken for what decodes of it."""
    pace: Pace = field(default_factory=Pace)
    maker: Maker = field(init=False)
    offering: Offering = field(init=False)
    current: tuple[str, int] | None = None
    """The request in hand, and which attempt at it."""
    lingering: list[Lease] = field(default_factory=list)
    """Blocks that a processor still looks at, against the contract; each task tries them again."""

    def __post_init__(self) -> None:
        loader = Loader(self.store, self.life, self.item_limits, self.video_salvage)
        salvage, room = self.video_salvage, self.pool.data_bytes
        planner = Planner(self.store, self.cache, room, self.pace, salvage, loader.guarded)
        refused = Refused(self.redis, self.moves.keys)
        self.offering = Offering(self.redis, self.moves.keys, self.store, self.secret)
        self.maker = Maker(self.node, self.processors, refused, loader, planner, self.cache, salvage)

    @property
    def owner(self) -> str:
        return self.life.id

    def stop_if_unwanted(self, redis: Client) -> None:
        """In a signal's handler: end the task in hand, if its request has ended meanwhile.

        Args:
            redis: a client for this alone; the task's own may be in the middle of a command.

        Raises:
            UnwantedError: it has.
        """
        task = self.current
        if task is not None and not self._is_wanted(*task, redis):
            raise UnwantedError("nobody wants it")

    def run(self, message: bytes) -> None:
        """Do what a message asks, if it is still to be done."""
        try:
            task = Task.unpack(message, self.secret)
        except NewerTaskError as error:
            # Nothing is lost with the message: its record stays queued, and a janitor of that release sends another.
            log.warning("task left to a later release", extra={"reason": str(error)})
            return
        except BadTaskError as error:
            self._set_aside(message, error.reason, str(error))
            return
        self._clear_lingering()
        self._forget_the_interrupted()
        # From before it is begun until it is over: whoever finds it begun and us not at it knows that we have left it.
        with self.life.at_work(work_name(task.rid, task.token)):
            self._do(task, message)

    def _do(self, task: Task, message: bytes) -> None:
        begun = self._begin(task)
        if begun.outcome == "run":
            with suppress(UnwantedError):  # one that comes while the attempt tidies up
                self._attempt(task, begun)
        elif begun.outcome == "expired":
            self._end(task.rid, _fence(task, begun), End.expired())
        elif begun.outcome == "abandoned":
            self._abandon(task, begun)
        elif begun.outcome == "refused" and not begun.state:
            self._set_aside(message, "unknown_request", "there is no record of it, or no longer", task.rid)
        else:
            log.info("task not taken", extra={"rid": task.rid, "outcome": begun.outcome, "state": begun.state})

    def _set_aside(self, message: bytes, reason: str, detail: str, rid: str = "") -> None:
        entry = Entry.of_message(message, reason, detail, self.node, rid)
        perform(self.redis, set_aside(self.moves.keys, entry))
        log.error("task set aside", extra={"rid": rid, "reason": reason, "digest": entry.digest})

    def _abandon(self, task: Task, begun: Begun) -> None:
        abandoner = Abandoner(self.redis, self.moves, self.node, self.secret)
        moved = abandoner.abandon(task.rid, _fence(task, begun))
        log.warning("request abandoned", extra={"rid": task.rid, "model": task.model, "written": moved.ok})

    def _begin(self, task: Task) -> Begun:
        """Claim the request; one whose worker has died or left it is taken over, under the next attempt."""
        begun = perform(self.redis, self._begin_move(task))
        if begun.outcome == "busy" and not is_at(self.life.folder, begun.owner, work_name(task.rid, task.token)):
            log.warning("taking over from a worker that has left it", extra={"rid": task.rid, "former": begun.owner})
            begun = perform(self.redis, self._begin_move(task, dead=begun.owner))
        return begun

    def _begin_move(self, task: Task, dead: str = "") -> Move[Begun]:
        return self.moves.begin(task.rid, task.token, self.owner, dead=dead, want_body=task.body is None)

    def _attempt(self, task: Task, begun: Begun) -> None:
        give_up_at = time.monotonic() + min(_LONGEST_WAIT_S, 0.9 * self.soft_limit_s, begun.left_ms / 1000)
        reservation = Reservation(
            self.pool, task.rid, begun.attempt, give_up_at, lambda: self._is_wanted(task.rid, begun.attempt)
        )
        parked = False
        self.offering.forget()
        self.current = (task.rid, begun.attempt)
        try:
            body = TaskBody.unpack(task.body or unseal(begun.body, self.secret))
            parked = self._process(Job(task, begun.attempt, body, reservation, Timings(), give_up_at))
        except UnwantedError:
            self.offering.forget()
            log.info("task given up: its request has ended", extra={"rid": task.rid})
        except Exception as error:  # noqa: BLE001 - whatever a guest or a codec raises ends this request, not the worker
            self.offering.forget()
            self._end(task.rid, Fence.owner(begun.attempt, self.owner), self._end_for(task, error))
        finally:
            self.current = None
            self.lingering += reservation.let_go() if parked else reservation.free()
            if not parked:
                self._forget_the_interrupted()
            if reservation.copied_bytes:
                self.pool.count(Number.COPIED_BYTES, reservation.copied_bytes)
        self.offering.hand_over()

    def _process(self, job: Job) -> bool:
        """Produce the result; whether a ticket owns the blocks now."""
        if job.body.kind is Kind.PLAN:
            self._plan(job)
            return False
        began_s = time.process_time()
        output, cached = self.maker.make(job)
        made = sum(item.feature.size_bytes for item, found in zip(output.items, cached, strict=True) if not found)
        spent_s = time.process_time() - began_s
        self.pace.note(job.task.model, made, spent_s)
        fingerprint = self.maker.processors[job.task.model].fingerprint
        self.offering.copy(job, output, fingerprint, 0.0 if any(cached) else 1000 * spent_s)
        if job.body.kind is Kind.PREPROCESS:
            self._answer(job, output, cached)
            return False
        task, attempt = job.task, job.attempt
        with job.timings.stage("write"):
            body = job.body
            ticket = make_ticket(output, job.reservation, task.rid, attempt, task.model, body.sampling, body.samples)
            job.reservation.park()
        # The ticket is written last: a scheduler that finds it may trust the block.
        spent = job.timings.rounded()
        move = self.moves.park(task.rid, attempt, self.owner, ticket.pack(), ticket.tokens, spent)
        moved = perform(self.redis, move)
        if not moved.ok:
            self.pool.count(Number.LATE_RESULTS)
            log.info("late result dropped", extra={"rid": task.rid, "attempt": attempt, "state": moved.state})
        return moved.ok

    def _plan(self, job: Job) -> None:
        loaded, extensions = self.maker.checked(job.task.model, job.body)
        result = self.maker.planner.plan(job.task.model, job.body, loaded, extensions)
        result["processor"] = {"name": loaded.name, "fingerprint": loaded.fingerprint}
        result |= {"node": self.node, "timings_ms": job.timings.rounded()}
        self._end(job.task.rid, Fence.owner(job.attempt, self.owner), End.done(result))

    def _answer(self, job: Job, output: Output, cached: Sequence[bool]) -> None:
        loaded = self.maker.processors[job.task.model]
        with job.timings.stage("describe"):
            result = describe(output, job.body, self.store, cached)
        result["processor"] = {"name": loaded.name, "fingerprint": loaded.fingerprint}
        result |= {"node": self.node, "timings_ms": job.timings.rounded()}
        self._end(job.task.rid, Fence.owner(job.attempt, self.owner), End.done(result))

    def _end_for(self, task: Task, error: Exception) -> End:
        if not isinstance(error, Rejected):
            log.error("request failed", extra={"rid": task.rid, "model": task.model}, exc_info=error)
        forget_frames(error)
        if isinstance(error, SoftTimeLimitExceeded):
            error = Failed("time_limit", f"preprocessing took longer than {self.soft_limit_s:g} s", status=504)
        elif isinstance(error, MemoryError):
            error = Failed("out_of_memory", "preprocessing needs more memory than the worker may have", status=503)
        return End.of(Problem.of(error))

    def _end(self, rid: str, fence: Fence, end: End) -> None:
        moved = perform(self.redis, self.moves.finish(rid, fence, end))
        log.info("request ended", extra={"rid": rid, "state": str(end.state), "written": moved.ok})

    def _is_wanted(self, rid: str, attempt: int, redis: Client | None = None) -> bool:
        """Whether a request is still this worker's to do: nobody has cancelled it, and it has not expired."""
        found = record.read(redis or self.redis, self.moves.keys, rid)
        return found is not None and found.state is State.PROCESSING and found.attempt == attempt

    def _forget_the_interrupted(self) -> None:
        """Give up what an earlier task has in the pool without knowing: its time ran out in the middle of a step."""
        given_up = self.pool.abandon_all([lease.block.handle for lease in self.lingering])
        if given_up:
            log.warning("blocks of an interrupted task freed", extra={"blocks": given_up})

    def _clear_lingering(self) -> None:
        if self.lingering:
            log.error("a processor keeps arrays of requests that have ended", extra={"blocks": len(self.lingering)})
            self.lingering = [lease for lease in self.lingering if not lease.close()]


def _fence(task: Task, begun: Begun) -> Fence:
    """For a request that was not begun: as it stood when it was looked at."""
    return Fence.seen(Seen(begun.state, begun.attempt, task.token))
