"""A request on its way through the states, a step at a time, on a real Redis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from handoff import record
from handoff.connection import Client
from handoff.move_replies import Accepted, Begun, Claimed, Moved
from handoff.moves import Admit, Moves
from handoff.record import Record
from handoff.scripts import Move, perform

NODE, MODEL, WORKER, SCHEDULER = "n1", "toy", "worker-1", "scheduler-1"


@dataclass(frozen=True)
class Way:
    """Each method takes a request one step further, or does what is said of it."""

    client: Client
    moves: Moves

    def do(self, move: Move[Any]) -> Any:
        return perform(self.client, move)

    def accept(self, rid: str = "r1", token: str = "t1", **more: Any) -> Accepted:
        told = {"kind": "generate", "priority": 0, "reply_to": "", "timeout_ms": 60_000, "max_live": 100, **more}
        return self.do(self.moves.accept(Admit(rid=rid, token=token, model=MODEL, **told)))

    def enqueue(self, rid: str = "r1", token: str = "t1", body: bytes = b"body", lane: str = "text") -> Moved:
        return self.do(self.moves.enqueue(rid, token, body, NODE, lane, b"message of " + rid.encode()))

    def begin(self, rid: str = "r1", token: str = "t1", owner: str = WORKER, **more: Any) -> Begun:
        return self.do(self.moves.begin(rid, token, owner, **more))

    def park(self, rid: str = "r1", attempt: int = 1, owner: str = WORKER, tokens: int = 10) -> Moved:
        return self.do(self.moves.park(rid, attempt, owner, b"ticket of " + rid.encode(), tokens, {"decode": 1.5}))

    def claim(
        self, nonce: str = "c1", scheduler: str = SCHEDULER, most: int = 10, tokens: int = 10_000
    ) -> list[Claimed]:
        return self.do(self.moves.claim(scheduler, nonce, NODE, MODEL, most=most, tokens=tokens))

    def emit(self, rid: str = "r1", claim: str = "c1", number: int = 0, piece: bytes = b"piece") -> bool:
        return self.do(self.moves.emit(rid, claim, number, piece))

    def renew(self, held: dict[str, str], scheduler: str = SCHEDULER) -> list[str]:
        return self.do(self.moves.renew(scheduler, NODE, MODEL, held))

    def cancel(self, rid: str = "r1") -> str:
        return self.do(self.moves.cancel(rid))

    # Several steps at once, for tests of what comes after.

    def queued(self, rid: str = "r1", token: str = "t1", **more: Any) -> None:
        assert self.accept(rid, token, **more).outcome == "ok"
        assert self.enqueue(rid, token).ok

    def processing(self, rid: str = "r1", token: str = "t1", **more: Any) -> None:
        self.queued(rid, token, **more)
        assert self.begin(rid, token).outcome == "run"

    def parked(self, rid: str = "r1", token: str = "t1", tokens: int = 10, **more: Any) -> None:
        self.processing(rid, token, **more)
        assert self.park(rid, tokens=tokens).ok

    def admitted(self, rid: str = "r1", token: str = "t1", claim: str = "c1", **more: Any) -> None:
        self.parked(rid, token, **more)
        assert rid in [claimed.rid for claimed in self.claim(claim)]

    def to(self, state: str, **more: Any) -> None:
        """To one of the live states."""
        steps = {
            "accepted": self.accept,
            "queued": self.queued,
            "processing": self.processing,
            "parked": self.parked,
            "admitted": self.admitted,
        }
        steps[state](**more)

    # What can be seen.

    def record(self, rid: str = "r1") -> Record:
        found = record.read(self.client, self.moves.keys, rid)
        assert found is not None
        return found

    def state(self, rid: str = "r1") -> str:
        return str(self.record(rid).state)

    def raw(self, rid: str = "r1") -> dict[str, bytes]:
        return {name.decode(): value for name, value in self.client.hgetall(self.moves.keys.record(rid)).items()}

    def messages(self, node: str = NODE, lane: str = "text") -> list[bytes]:
        return self.client.lrange(self.moves.keys.queue(node, lane), 0, -1)

    def purged(self, node: str = NODE) -> list[bytes]:
        return self.client.lrange(self.moves.keys.purge(node), 0, -1)

    def waiting(self, node: str = NODE) -> list[str]:
        """Parked requests, as schedulers will find them."""
        return [rid.decode() for rid in self.client.zrange(self.moves.keys.parked(node, MODEL), 0, -1)]

    def leased(self, node: str = NODE) -> list[str]:
        return [rid.decode() for rid in self.client.zrange(self.moves.keys.leases(node, MODEL), 0, -1)]

    def in_line(self, node: str = NODE, lane: str = "text") -> list[str]:
        """Queued requests, the one that waits longest first."""
        return [rid.decode() for rid in self.client.zrange(self.moves.keys.line(node, lane), 0, -1)]

    def account(self, tenant: str = "") -> tuple[int, int]:
        """Live requests of a tenant, and the bytes of their media."""
        live, size = self.client.hmget(self.moves.keys.tenant(tenant), "live", "bytes")
        return int(live or 0), int(size or 0)

    def asked(self, tenant: str = "") -> list[str]:
        """What a tenant has asked for lately, oldest first."""
        return [rid.decode() for rid in self.client.zrange(self.moves.keys.asked(tenant), 0, -1)]

    def live(self) -> list[str]:
        return sorted(rid.decode() for rid in self.client.zrange(self.moves.keys.due, 0, -1))

    def listen(self, api: str = "api-1") -> None:
        """Be the API process whose stream events go to."""
        self.client.xadd(self.moves.keys.out(api), {"event": "open"})

    def events(self, api: str = "api-1") -> list[dict[str, Any]]:
        """What the caller's API process was told, without the opening."""
        reply = self.client.xrange(self.moves.keys.out(api))
        events = [{name.decode(): value for name, value in fields.items()} for _, fields in reply]
        return [event for event in events if event["event"] != b"open"]

    # Turning the clock: what a record or a set says of time is moved instead of waiting.

    def pass_deadline(self, rid: str = "r1") -> None:
        self.client.hset(self.moves.keys.record(rid), "deadline", 1)
        self.client.zadd(self.moves.keys.due, {rid: 1})

    def let_lapse(self, rid: str = "r1") -> None:
        """As if the scheduler had not renewed its lease."""
        self.client.zadd(self.moves.keys.leases(NODE, MODEL), {rid: 1})

    def age(self, rid: str = "r1", ms: int = 60_000) -> None:
        """As if the request had been queued that much earlier and were due for a look."""
        key = self.moves.keys.record(rid)
        self.client.hset(key, "t_queued", int(self.client.hget(key, "t_queued")) - ms)
        self.make_due(rid)

    def make_due(self, rid: str = "r1") -> None:
        """As if it were time for its node's janitor to look at it."""
        node, model = self.client.hmget(self.moves.keys.record(rid), "node", "model")
        self.client.zadd(self.moves.keys.watch(node.decode(), model.decode()), {rid: 1})

    def move(self, rid: str, node: str, model: str = MODEL) -> None:
        """As if it had been queued on another node, for whatever model."""
        keys = self.moves.keys
        self.client.zrem(keys.watch(NODE, MODEL), rid)
        self.client.hset(keys.record(rid), mapping={"node": node, "model": model})
        self.client.zadd(keys.watch(node, model), {rid: 1})

    def watched(self, node: str = NODE, model: str = MODEL) -> list[str]:
        """A node's live requests, as its janitor will find them."""
        return sorted(rid.decode() for rid in self.client.zrange(self.moves.keys.watch(node, model), 0, -1))


def problem_of(event: dict[str, Any]) -> str | None:
    """The code of an end's problem."""
    return msgpack.unpackb(event["problem"])["code"] if event["problem"] else None
