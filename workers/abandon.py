"""The end of a request that kills whoever takes it: its caller is told, and its media are named in quarantine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from forebay.errors import Problem
from forebay.task import BadTaskError, MediaRef, TaskBody, unseal
from handoff import record
from handoff.connection import Client
from handoff.move_replies import Moved
from handoff.moves import End, Fence, Moves
from handoff.quarantine import Entry, set_aside
from handoff.record import Record
from handoff.scripts import perform, perform_all

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Abandoner:
    """What a child and a janitor need to give a request up."""

    redis: Client
    moves: Moves
    node: str
    secret: bytes

    def abandon(self, rid: str, fence: Fence) -> Moved:
        """End a request, and name its media to whoever looks for what kills workers and schedulers.

        Naming refuses nothing: a scheduler that dies takes along all that it had, and may have died of itself.
        """
        found = record.read(self.redis, self.moves.keys, rid)  # before the end, which forgets the body
        return self._end(rid, found, fence, abandoned(found.tries if found else 0))

    def end(self, rid: str, fence: Fence, problem: Problem) -> Moved:
        """The same with another problem."""
        return self._end(rid, record.read(self.redis, self.moves.keys, rid), fence, problem)

    def _end(self, rid: str, found: Record | None, fence: Fence, problem: Problem) -> Moved:
        moved = perform(self.redis, self.moves.finish(rid, fence, End.of(problem)))
        if moved.ok and found is not None:
            media = self._media_of(found)
            entries = [Entry.of_media(ref.digest, problem.code, problem.message, self.node, rid) for ref in media]
            perform_all(self.redis, [set_aside(self.moves.keys, entry) for entry in entries])
        return moved

    def _media_of(self, found: Record) -> Sequence[MediaRef]:
        try:
            return TaskBody.unpack(unseal(found.body, self.secret)).media
        except BadTaskError as error:  # the end matters more than who is to blame
            log.warning("media of an abandoned request unknown", extra={"rid": found.rid, "reason": str(error)})
            return ()


def abandoned(attempts: int) -> Problem:
    """What the caller of such a request is told."""
    return Problem("abandoned", f"abandoned after {attempts} attempts: each lost its worker or its scheduler", 500)
