"""Queuing a request: the signed message around its body, for the first attempt and for every later one."""

from __future__ import annotations

from forebay.task import Task, TaskBody, unseal
from handoff.envelope import Label, envelope
from handoff.keys import queue_name
from handoff.move_replies import Moved
from handoff.moves import Moves
from handoff.record import Record
from handoff.scripts import Move


def queue_entry(task: Task, body: TaskBody, node: str, lane: str, secret: bytes) -> bytes:
    """What goes onto a node's queue for one attempt."""
    queue = queue_name(node, lane)
    size = sum(ref.size_bytes for ref in body.media)
    label = Label.of(task.rid, task.attempt, task.model, len(body.media), size)
    return envelope(f"{task.rid}.{task.attempt}", queue, task.pack(secret), label)


def requeue(moves: Moves, found: Record, attempt: int, node: str, secret: bytes) -> Move[Moved]:
    """Queue a request again, as ``attempt``, from what its record keeps.

    Raises:
        BadTaskError: the record's body is not signed with our secret, or unreadable.
    """
    entry = _anew(found, attempt, node, secret)
    return moves.replay(found.rid, found.seen, attempt, node, entry)


def resend(moves: Moves, found: Record, secret: bytes) -> Move[Moved]:
    """Queue another message for a request whose own is lost; nobody had begun, so the attempt is the same. As above."""
    entry = _anew(found, found.attempt, found.node, secret)
    return moves.resend(found.rid, found.seen, entry)


def _anew(found: Record, attempt: int, node: str, secret: bytes) -> bytes:
    body = unseal(found.body, secret)
    task = Task(found.rid, found.token, attempt, found.model, found.deadline_ms, found.priority, body)
    return queue_entry(task, TaskBody.unpack(body), node, found.lane, secret)
