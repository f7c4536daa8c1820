"""The states of a request and which of them are ends. The record in Redis holds exactly one."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a request is on its way from the caller to the model and back."""

    ACCEPTED = "accepted"
    QUEUED = "queued"
    PROCESSING = "processing"
    PARKED = "parked"
    ADMITTED = "admitted"
    DONE = "done"
    REJECTED = "rejected"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        return self in ENDS


ENDS = frozenset({State.DONE, State.REJECTED, State.FAILED, State.EXPIRED, State.CANCELLED})
WAY = (State.ACCEPTED, State.QUEUED, State.PROCESSING, State.PARKED, State.ADMITTED, State.DONE)
