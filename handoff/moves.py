"""The moves of a request through its states, one Lua file each, described for either kind of client.

The record in Redis is the truth about a request. Each move checks the state and the fence (the acceptance token, the
attempt and owner, or the scheduler's claim) and either happens whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgpack

from forebay.errors import Problem
from forebay.states import State
from handoff.connection import texts
from handoff.keys import Keys
from handoff.move_replies import (
    LOOKS_AT_ONCE,
    Accepted,
    Begun,
    Claimed,
    Expired,
    Moved,
    read_accepted,
    read_begun,
    read_claimed,
    read_expired,
    read_look,
    read_moved,
)
from handoff.scripts import Argument, Move

RECHECK_MS = 5_000  # how often the reconciler looks at a live request
RETENTION_MS = 600_000  # how long an ended request can be asked about
LEASE_MS = 10_000  # a scheduler that is silent this long is taken for dead
MAX_ATTEMPTS = 3
MOST_RESENT = 10  # a message that vanishes for so often is taken by something that is none of ours


@dataclass(frozen=True, slots=True)
class Quota:
    """What one tenant may have at most: live requests, bytes of their media, requests a second. 0 is no limit."""

    live: int = 0
    size_bytes: int = 0
    per_second: float = 0


FREE = Quota()

LOG = "*"
"""As ``reply_to``: the events of a request are kept for whoever follows it."""


@dataclass(frozen=True, slots=True)
class Admit:
    """What the API says of a request when it is accepted. ``size_bytes`` are those of its media."""

    rid: str
    token: str
    model: str
    kind: str
    priority: int
    reply_to: str
    timeout_ms: int
    max_live: int
    tenant: str = ""
    size_bytes: int = 0
    quota: Quota = FREE


@dataclass(frozen=True, slots=True)
class Moves:
    """Every move, for one deployment's keys."""

    keys: Keys

    def _move(self, script: str, rid: str, *args: Argument, read: Any) -> Move[Any]:
        return Move(script, self.keys.record(rid), (self.keys.prefix, rid, *args), read)

    def accept(self, admit: Admit) -> Move[Accepted]:
        fields: dict[str, Argument] = {
            "model": admit.model,
            "kind": admit.kind,
            "priority": admit.priority,
            "node": "",
            "lane": "",
            "owner": "",
        }
        flat = [part for pair in fields.items() for part in pair]
        limits = (admit.token, admit.max_live, admit.timeout_ms)
        quota = (admit.quota.live, admit.quota.size_bytes, admit.quota.per_second)
        account = (admit.tenant, admit.size_bytes, *quota, admit.reply_to)
        return self._move("accept", admit.rid, *limits, *account, *flat, read=read_accepted)

    def enqueue(
        self,
        rid: str,
        token: str,
        body: bytes,
        node: str,
        lane: str,
        message: bytes,
        *,
        size_bytes: int = -1,
        most_bytes: int = 0,
    ) -> Move[Moved]:
        """Queue the first attempt, with its body, packed and sealed, and its ``message``, the whole Celery envelope.

        ``size_bytes`` are those of its media where more was fetched than was known; -1 leaves it. With them its tenant
        may not go beyond ``most_bytes``; 0 is no limit.
        """
        args = (token, 1, body, node, lane, message, size_bytes, RECHECK_MS, most_bytes)
        return self._move("enqueue", rid, *args, read=read_moved)

    def begin(self, rid: str, token: str, owner: str, *, dead: str = "", want_body: bool = False) -> Move[Begun]:
        """Take a queued request, or one whose owner is known to be ``dead``."""
        return self._move("begin", rid, token, owner, dead, int(want_body), MAX_ATTEMPTS, read=read_begun)

    def park(
        self, rid: str, attempt: int, owner: str, ticket: bytes, tokens: int, timings: Mapping[str, float]
    ) -> Move[Moved]:
        packed = msgpack.packb(dict(timings))
        return self._move("park", rid, attempt, owner, ticket, tokens, packed, read=read_moved)

    def claim(
        self, scheduler: str, nonce: str, node: str, model: str, *, most: int, tokens: int
    ) -> Move[list[Claimed]]:
        args = (self.keys.prefix, scheduler, nonce, node, model, most, tokens, LEASE_MS)
        return Move("claim", self.keys.parked(node, model), args, lambda reply: read_claimed(reply, nonce))

    def renew(self, scheduler: str, node: str, model: str, held: Mapping[str, str]) -> Move[list[str]]:
        """Extend the leases of ``held`` (rid to claim); the reply names those that are lost."""
        flat = [part for pair in held.items() for part in pair]
        return Move("renew", self.keys.leases(node, model), (self.keys.prefix, scheduler, LEASE_MS, *flat), texts)

    def emit(self, rid: str, claim: str, sequence: int, piece: bytes) -> Move[bool]:
        return self._move("emit", rid, claim, sequence, piece, read=bool)

    def finish(self, rid: str, fence: Fence, end: End) -> Move[Moved]:
        problem = b"" if end.problem is None else msgpack.packb(end.problem.as_map())
        args = (fence.kind, fence.value, end.state, RETENTION_MS, problem, end.result)
        return self._move("finish", rid, *args, read=read_moved)

    def cancel(self, rid: str, token: str = "") -> Move[str]:
        """Cancel; the reply is the state before, empty for an unknown request.

        With the ``token`` of an acceptance nothing happens to a later request of the same id.
        """
        problem = msgpack.packb(Problem("cancelled", "the request was cancelled", 499).as_map())
        return self._move("cancel", rid, RETENTION_MS, problem, token, read=_text)

    def replay(self, rid: str, seen: Seen, attempt: int, node: str, message: bytes) -> Move[Moved]:
        """Queue the request again as ``attempt``, in its lane of a node, if it still is as it was ``seen``."""
        fence = (seen.state, seen.attempt, seen.token)
        return self._move("replay", rid, *fence, attempt, node, message, RECHECK_MS, read=read_moved)

    def is_lost(self, rid: str) -> Move[bool]:
        """Whether the message of a queued request is in no list any more."""
        return self._move("lost", rid, read=bool)

    def resend(self, rid: str, seen: Seen, message: bytes) -> Move[Moved]:
        """Queue another message for a request, under the same attempt, if its own is in no list."""
        return self._move("resend", rid, seen.attempt, seen.token, message, read=read_moved)

    def lapse(self, node: str, model: str) -> Move[list[str]]:
        """Park again what has lost its scheduler, but for what has been tried often enough. What was parked."""
        return self._of_leases("lapse", node, model)

    def worn(self, node: str, model: str) -> Move[list[str]]:
        """What has lost its scheduler, and been tried often enough."""
        return self._of_leases("worn", node, model)

    def _of_leases(self, script: str, node: str, model: str) -> Move[list[str]]:
        args = (self.keys.prefix, node, model, LOOKS_AT_ONCE, MAX_ATTEMPTS)
        return Move(script, self.keys.leases(node, model), args, texts)

    def look(self, node: str, model: str) -> Move[tuple[int, list[str]]]:
        """Redis' time in ms, and the requests of a node that its janitor should look at."""
        args = (self.keys.prefix, node, model, LOOKS_AT_ONCE, RECHECK_MS)
        return Move("look", self.keys.watch(node, model), args, read_look)

    def neglected(self, node: str, models: Sequence[str], silent_ms: int) -> Move[tuple[int, list[str]]]:
        """Redis' time in ms, and requests of ``models`` on other nodes that nobody has looked at for ``silent_ms``."""
        args: tuple[Argument, ...] = (self.keys.prefix, node, silent_ms, RECHECK_MS, LOOKS_AT_ONCE, *models)
        return Move("neglected", self.keys.nodes, args, read_look)

    def expire(self) -> Move[Expired]:
        """End what is past its deadline, so many at once."""
        problem = End.expired().problem
        packed = b"" if problem is None else msgpack.packb(problem.as_map())
        args = (self.keys.prefix, LOOKS_AT_ONCE, RETENTION_MS, packed, RECHECK_MS)
        return Move("expire", self.keys.due, args, read_expired)


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as somebody read it; a move on it fails if it has moved since, or its id means another request."""

    state: str
    attempt: int
    token: str


@dataclass(frozen=True, slots=True)
class Fence:
    """Who may end a request now; see ``finish.lua``."""

    kind: Literal["token", "owner", "claim", "attempt"]
    value: str

    @classmethod
    def token(cls, token: str) -> Fence:
        return cls("token", token)

    @classmethod
    def owner(cls, attempt: int, owner: str) -> Fence:
        return cls("owner", f"{attempt}/{owner}")

    @classmethod
    def claim(cls, claim: str) -> Fence:
        return cls("claim", claim)

    @classmethod
    def seen(cls, seen: Seen) -> Fence:
        return cls("attempt", f"{seen.state}/{seen.attempt}/{seen.token}")


@dataclass(frozen=True, slots=True)
class End:
    """How a request ends: a result, or a problem."""

    state: State
    problem: Problem | None = None
    result: bytes = b""

    @classmethod
    def done(cls, result: Mapping[str, Any]) -> End:
        return cls(State.DONE, None, msgpack.packb(dict(result)))

    @classmethod
    def of(cls, problem: Problem) -> End:
        """``rejected`` when the caller is to blame, ``failed`` when we are."""
        return cls(State.REJECTED if problem.status < 500 else State.FAILED, problem)

    @classmethod
    def expired(cls) -> End:
        return cls(State.EXPIRED, Problem("deadline_exceeded", "the deadline passed before the answer", 504))


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
