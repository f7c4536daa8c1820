"""What should become of a live request that has not moved for a while. A pure decision; the janitor acts on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from forebay.states import State
from handoff.moves import MAX_ATTEMPTS, MOST_RESENT
from handoff.record import Record

LOST_MESSAGE_MS = 10_000  # of a request that is queued for less, nobody asks where its message is


class Verdict(Enum):
    """What to do with a request."""

    LEAVE = "leave"
    EXPIRE = "expire"
    SEND_AGAIN = "send again"
    NEXT_ATTEMPT = "next attempt"
    ABANDON = "abandon"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the janitor of a node knows when it judges."""

    node: str
    now_ms: int
    live_nodes: frozenset[str]
    neglected: frozenset[str]
    """Requests of other nodes whose workers have gone, or no longer serve the model, and that no scheduler has."""
    is_at_work: Callable[[Record], bool]
    """Whether the owner of a request lives and is still at it."""
    lost: frozenset[str]
    """Queued requests whose message is in no list."""
    has_features: Callable[[Record], bool]
    """Whether a parked request's ticket leads to blocks of the pool."""


def judge(record: Record, around: Surroundings) -> Verdict:
    """Decide for one record."""
    if record.state.is_end:
        return Verdict.LEAVE
    if around.now_ms >= record.deadline_ms:
        return Verdict.EXPIRE
    if record.state is State.ACCEPTED:
        return Verdict.LEAVE
    if record.node not in around.live_nodes | {around.node}:
        return _next(record)  # queue, worker, features and scheduler were all the node's
    if record.node != around.node:
        is_left = record.rid in around.neglected and record.state is not State.PARKED
        return _next(record) if is_left else Verdict.LEAVE  # a parked one is for the node's schedulers
    if record.state is State.PROCESSING and not around.is_at_work(record):
        return _next(record)  # dead, or it has failed without being able to say so
    if record.state is State.PARKED and not around.has_features(record):
        return _next(record)  # the pool was made anew, or somebody freed what was not theirs
    if record.state is State.QUEUED and record.rid in around.lost:
        return Verdict.SEND_AGAIN if record.resent < MOST_RESENT else Verdict.GIVE_UP
    return Verdict.LEAVE


def _next(record: Record) -> Verdict:
    return Verdict.NEXT_ATTEMPT if record.tries < MAX_ATTEMPTS else Verdict.ABANDON


def may_be_lost(record: Record, now_ms: int) -> bool:
    """Whether it is worth asking where a request's message is."""
    return record.state is State.QUEUED and now_ms - record.times_ms["queued"] > LOST_MESSAGE_MS
