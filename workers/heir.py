"""What becomes of the messages that a dead worker had in hand: they go back, unless they kill whoever takes them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from forebay.errors import Problem
from forebay.states import State
from forebay.task import BadTaskError, Task
from handoff import record
from handoff.envelope import message_in
from handoff.moves import Fence, Seen
from handoff.quarantine import Entry, set_aside_taken
from handoff.scripts import perform
from handoff.slot import MOST_DEATHS, Slot, Taken
from workers.abandon import Abandoner

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Heir:
    """Settles what the dead of a node leave."""

    abandoner: Abandoner
    secret: bytes

    def inherit(self, life: str) -> None:
        """Put back what a dead worker had, and end the requests whose messages have killed one worker too many."""
        slot = Slot(self.abandoner.moves.keys, self.abandoner.node, life)
        estate = perform(self.abandoner.redis, slot.inherit())
        if estate.returned:
            log.warning("messages of a dead worker put back", extra={"dead": life, "messages": estate.returned})
        for taken in estate.deadly:
            self._bury(slot, taken)
        if estate.deadly:
            perform(self.abandoner.redis, slot.inherit())  # it has nothing left, and is forgotten

    def _bury(self, slot: Slot, taken: Taken) -> None:
        """The request first: one who dies between the two steps leaves the message where the next will find it."""
        task = self._task_in(taken.message)
        if task is not None:
            self._end(task)
        detail = f"{MOST_DEATHS + 1} workers have died with it in hand"
        entry = Entry.of_message(taken.message, "deadly", detail, slot.node, task.rid if task else "")
        perform(self.abandoner.redis, set_aside_taken(slot.keys, entry, slot.list_of(taken.lane), taken.message))
        log.error("message set aside", extra={"reason": entry.reason, "digest": entry.digest, "rid": entry.rid})

    def _task_in(self, message: bytes) -> Task | None:
        try:
            return Task.unpack(message_in(message), self.secret)
        except (ValueError, BadTaskError):  # what we cannot read, we cannot call anybody's
            return None

    def _end(self, task: Task) -> None:
        found = record.read(self.abandoner.redis, self.abandoner.moves.keys, task.rid)
        if found is not None and found.seen == Seen(State.QUEUED, task.attempt, task.token):
            message = f"abandoned after {MOST_DEATHS + 1} deliveries: each ended with the death of its worker"
            self.abandoner.end(task.rid, Fence.seen(found.seen), Problem("abandoned", message, 500))
