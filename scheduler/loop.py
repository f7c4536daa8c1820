"""The scheduler's loop: take what fits, step the engine, pass on what it says, give back what is finished.

It waits on Redis only when the engine has nothing to do; otherwise it just looks.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from forebay.engine import Emission, Engine, Room
from forebay.errors import ConfigurationError, Failed, Problem, Rejected
from forebay.task import BadTaskError, NewerTaskError
from handoff import nodes, record
from handoff.move_replies import Claimed, Moved
from handoff.moves import LEASE_MS, MAX_ATTEMPTS, End, Fence
from handoff.pool import forget_frames
from handoff.record import Record
from handoff.requeue import requeue
from handoff.scripts import Move, perform, perform_all
from scheduler.batch import Running, Sample
from scheduler.intake import ANY_SIZE, Intake, Taken
from scheduler.keeper import LONGEST_STEP_S, keeping

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.005  # while the engine works; a look costs a round trip of its time
_RENEW_EVERY_S = 0.5  # also how soon a cancelled request is noticed
_PAUSE_WITHOUT_REDIS_S = 0.5
_KEEP_EVERY_S = LEASE_MS / 1000 / 4


@dataclass(slots=True)
class Scheduler:
    """One model's scheduler on one node."""

    intake: Intake
    engine: Engine
    secret: bytes
    drain_s: float
    running: dict[str, Running] = field(default_factory=dict)
    samples: dict[str, Sample] = field(default_factory=dict)
    """What the engine works on, by the id that it knows; a request that wants several answers has several."""
    _held: deque[Sample] = field(default_factory=deque)
    """Samples of admitted requests that the engine has had no room for yet. They go before new requests."""
    # What Redis has not taken yet. An engine says everything once, so none of it may be lost when Redis is away.
    _pieces: list[tuple[Running, Move[bool]]] = field(default_factory=list)
    _ends: list[tuple[Taken, End]] = field(default_factory=list)
    _stop_at: float | None = None
    _looked_at: float = 0.0
    _may_have_more: bool = True
    _renewed_at: float = 0.0
    _turned_at: float = 0.0
    _announced_at: float = float("-inf")

    def stop(self) -> None:
        """Admit nothing more, and end when what is running has ended. Safe to call twice."""
        if self._stop_at is None:
            self._stop_at = time.monotonic() + self.drain_s
            log.info("draining", extra={"running": len(self.running)})

    @property
    def is_stopping(self) -> bool:
        return self._stop_at is not None

    @property
    def is_over(self) -> bool:
        if self._stop_at is None:
            return False
        return not (self.running or self._ends) or time.monotonic() > self._stop_at

    def run(self) -> None:
        """Work until stopped. Without Redis the engine pauses, and goes on when it is back."""
        self._turned_at = time.monotonic()
        with keeping(self._keep, _KEEP_EVERY_S):
            while not self.is_over:
                try:
                    self.turn()
                except Failed as error:
                    log.warning("scheduler paused", extra={"reason": error.message, "running": len(self.running)})
                    time.sleep(_PAUSE_WITHOUT_REDIS_S)
        self._withdraw()

    def _keep(self) -> None:
        """Give a sign of life, from another thread, while a step lasts."""
        if time.monotonic() - self._turned_at <= LONGEST_STEP_S:
            with suppress(Failed):  # the loop itself tells it
                self.announce()
                self.intake.keep()

    def turn(self) -> None:
        """One round of the loop."""
        self._turned_at = time.monotonic()
        if self.announce() and not self.intake.pool.is_in_place():
            path = self.intake.pool.path
            raise ConfigurationError(f"{path} was removed, replaced or cut off; a new start finds what is there now")
        self._deliver()
        if self._stop_at is None:
            self._look()
        if self.running:
            self._step()
            self._renew()
        self._deliver()

    def announce(self) -> bool:
        """Say that this engine lives, now and then; whether it was said now."""
        if time.monotonic() - self._announced_at <= nodes.ANNOUNCE_S:
            return False
        intake = self.intake
        part = f"engine:{intake.model}"
        nodes.announce(intake.redis, intake.moves.keys, intake.node, part, {"scheduler": intake.scheduler})
        self._announced_at = time.monotonic()
        return True

    def _withdraw(self) -> None:
        intake = self.intake
        with suppress(Failed):  # without Redis the silence tells
            nodes.withdraw(intake.redis, intake.moves.keys, intake.node, f"engine:{intake.model}")

    def _look(self) -> None:
        """Admit what fits. A busy engine is not held up; an idle one sleeps until something is parked."""
        if self.running and time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return
        if not (self.running or self._ends or self._may_have_more):
            self.intake.wait()
        room = self._room()
        taken, gone = self.intake.poll(room)
        if room.requests > 0 and not (self.running or taken or gone):
            taken, gone = self._look_at_first(room)
        self._looked_at = time.monotonic()
        # Something may wait that did not fit; once nothing does, the next thing parked wakes us.
        self._may_have_more = bool(taken or gone or self._ends)
        for one in taken:
            self._admit(one)
        for claimed in gone:
            self._replay(claimed)

    def _room(self) -> Room:
        """Room for new requests: what is left when the samples that were held back are in, and none before."""
        while self._held:
            room, sample = self.engine.room(), self._held[0]
            if room.requests < 1 or room.tokens < sample.running.taken.ticket.prompt_tokens:
                return Room(0, 0)
            self._begin(self._held.popleft())
        return self.engine.room()

    def _look_at_first(self, room: Room) -> tuple[list[Taken], list[Claimed]]:
        """An idle engine that takes nothing may face a request that can never fit: refuse that one."""
        taken, gone = self.intake.poll(Room(1, ANY_SIZE))
        for one in list(taken):
            tokens = one.ticket.prompt_tokens
            if tokens > room.tokens:
                taken.remove(one)
                message = f"the expanded prompt has {tokens} tokens; the engine takes at most {room.tokens}"
                self._end(one, End.of(Problem.of(Rejected("prompt_too_long", message))))
        return taken, gone

    def _admit(self, taken: Taken) -> None:
        assert taken.admission is not None
        earlier = self.running.get(taken.rid)
        if earlier is not None:  # the lease lapsed meanwhile, and it was we who claimed the ticket again
            self._stop(earlier)
        running = self.running[taken.rid] = Running.of(taken)
        log.info("admitted", extra={"rid": taken.rid, "tokens": taken.ticket.prompt_tokens})
        first, *more = running
        if self._begin(first):
            self._held += more
            self._room()

    def _begin(self, sample: Sample) -> bool:
        """Hand a sample to the engine; whether it took it."""
        running = sample.running
        if self.running.get(running.taken.rid) is not running:
            return False  # another sample of the request has failed
        try:
            self.engine.admit(sample.admission)
        except Exception as error:  # noqa: BLE001 - an engine is a guest; what it refuses fails alone
            self._stop(running)
            self._fail(running.taken, error)
            return False
        self.samples[sample.rid] = sample
        return True

    def _step(self) -> None:
        try:
            emissions = self.engine.step()
        except Exception as error:  # noqa: BLE001 - a failed step leaves no request of the engine in a known state
            for running in list(self.running.values()):
                self._stop(running)
                self._fail(running.taken, error)
            return
        self._note(emissions)

    def _note(self, emissions: Sequence[Emission]) -> None:
        """Take in what one step produced; ``_deliver`` passes it on."""
        for emission in emissions:
            sample = self.samples.get(emission.rid)
            if sample is None:
                continue
            try:
                self._take_in(sample, emission)
            except Exception as error:  # noqa: BLE001 - what an engine says may be nothing that can be sent
                self._stop(sample.running)
                self._fail(sample.running.taken, error)

    def _take_in(self, sample: Sample, emission: Emission) -> None:
        running, goes_on = sample.running, emission.finish_reason is None
        emission = sample.take(emission)
        if emission.error is not None:
            del self.samples[sample.rid]  # the engine has forgotten it
            self._stop(running)
            self._fail(running.taken, emission.error)
            return
        if sample.last is not None and goes_on:
            self.engine.abort(sample.rid)  # at a stop text, of which the engine knows nothing
        if running.is_done:
            end = End.done(running.result())
            del self.samples[sample.rid]
            self._stop(running)
            self._end(running.taken, end)
            return
        if sample.last is not None:
            del self.samples[sample.rid]
        if emission.text:
            self._pieces.append((running, self._piece(sample, emission)))

    def _deliver(self) -> None:
        """Send the pieces in one round trip, then write the ends. What fails is sent again with the next turn."""
        kept = perform_all(self.intake.redis, [move for _, move in self._pieces])
        pieces, self._pieces = self._pieces, []
        for (running, _), still_ours in zip(pieces, kept, strict=True):
            if not still_ours and self.running.get(running.taken.rid) is running:
                self._abort(running)
        while self._ends:
            self._write(*self._ends[0])
            self._ends.pop(0)

    def _piece(self, sample: Sample, emission: Emission) -> Move[bool]:
        taken = sample.running.taken
        return self.intake.moves.emit(taken.rid, taken.claim, sample.running.next_sequence(), sample.piece(emission))

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < _RENEW_EVERY_S:
            return
        self._renewed_at = time.monotonic()
        for taken in self.intake.renew():
            running = self.running.get(taken.rid)
            if running is not None:
                self._abort(running)

    def _abort(self, running: Running) -> None:
        log.info("no longer wanted", extra={"rid": running.taken.rid})
        self._stop(running)
        self.intake.release(running.taken)

    def _stop(self, running: Running) -> None:
        """The engine has nothing of a request any more, and neither have we."""
        for sample in running:
            if self.samples.pop(sample.rid, None) is not None:
                self.engine.abort(sample.rid)
        self._held = deque(sample for sample in self._held if sample.running is not running)
        if self.running.get(running.taken.rid) is running:
            del self.running[running.taken.rid]

    def _fail(self, taken: Taken, error: Exception) -> None:
        if not isinstance(error, Rejected):
            log.error("engine failed", extra={"rid": taken.rid}, exc_info=error)
        forget_frames(error)
        self._end(taken, End.of(Problem.of(error)))

    def _end(self, taken: Taken, end: End) -> None:
        """Features first, then the end: whoever sees the end finds the pool as it was before the request."""
        self.intake.release(taken)
        self._ends.append((taken, end))

    def _write(self, taken: Taken, end: End) -> None:
        written = self.intake.end(taken, end)
        log.info("request ended", extra={"rid": taken.rid, "state": str(end.state), "written": written})

    def _replay(self, claimed: Claimed) -> None:
        """Have features that are gone made again, as often as a request may be tried."""
        found = record.read(self.intake.redis, self.intake.moves.keys, claimed.rid)
        if found is not None and found.claim == claimed.claim and not found.state.is_end:
            try:
                perform(self.intake.redis, self._anew(claimed, found))
            except NewerTaskError as error:  # its lease lapses, and a process of that release takes it up
                log.warning("request left to a later release", extra={"rid": claimed.rid, "reason": str(error)})

    def _anew(self, claimed: Claimed, found: Record) -> Move[Moved]:
        intake = self.intake
        problem = Problem("features_gone", f"the features were gone after each of {found.tries} attempts", 500)
        if found.tries < MAX_ATTEMPTS:
            try:
                return requeue(intake.moves, found, found.attempt + 1, intake.node, self.secret)
            except NewerTaskError:
                raise
            except BadTaskError as error:  # what its record keeps is not ours, and is not signed by us
                log.error("request failed", extra={"rid": claimed.rid}, exc_info=error)
                problem = Problem.of(error)
        return intake.moves.finish(claimed.rid, Fence.claim(claimed.claim), End.of(problem))
