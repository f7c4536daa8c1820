"""Those whom the API meets in Redis, played by hand: a node that is announced, a worker, a scheduler."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from forebay.task import Task, TaskBody, unseal
from handoff import nodes
from handoff.connection import Client
from handoff.keys import Keys
from handoff.moves import End, Fence
from tests.support.ways import MODEL, NODE, WORKER, Way

SECRET = b"0123456789abcdef"


def announce(
    client: Client,
    keys: Keys,
    node: str = NODE,
    *,
    models: tuple[str, ...] = (MODEL,),
    engines: tuple[str, ...] = (MODEL,),
    used_bytes: int = 0,
    broken: Mapping[str, str] | None = None,
) -> None:
    """A node whose workers and engines live."""
    offers = [{"model": one, "fingerprint": "f" * 16, "modalities": {"image": 4}, "extensions": True} for one in models]
    pool = {"data_bytes": 1000, "used_bytes": used_bytes, "blocks": int(used_bytes > 0)}
    nodes.announce(client, keys, node, "workers", {"processors": offers, "pool": pool, "broken": dict(broken or {})})
    for engine in engines:
        nodes.announce(client, keys, node, f"engine:{engine}", {"scheduler": f"scheduler-of-{engine}"})


def task_in(entry: bytes) -> Task:
    """The task in a queue entry, authenticated as a worker does it."""
    (message,), _, _ = msgpack.unpackb(base64.b64decode(json.loads(entry)["body"]))
    return Task.unpack(message, SECRET)


def result(text: str = "a b", tokens: int = 2, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a scheduler writes of a good answer."""
    output = {"text": text, "completion_tokens": tokens, "finish_reason": "stop", "meta": meta or {}}
    return {"prompt_tokens": 10, "outputs": [output]}


@dataclass(frozen=True)
class Staff:
    """A worker and a scheduler; each method waits for its request as they do, at most a few seconds."""

    way: Way

    def next_task(self, lane: str = "text") -> tuple[Task, TaskBody]:
        """The next task of a lane."""
        popped = self.way.client.brpop([self.way.moves.keys.queue(NODE, lane)], 4)
        assert popped, f"no task on {lane}"
        task = task_in(popped[1])
        return task, TaskBody.unpack(task.body or unseal(self.way.record(task.rid).body, SECRET))

    def admit_next(self, claim: str = "c1") -> str:
        """Take a request from its queue into an engine; its id."""
        task, _ = self.next_task()
        assert self.way.begin(task.rid, task.token).outcome == "run"
        assert self.way.park(task.rid).ok
        assert [one.rid for one in self.way.claim(claim)] == [task.rid]
        return task.rid

    def say(self, rid: str, number: int, text: str, claim: str = "c1") -> bool:
        """Emit a piece of the answer."""
        return self.way.emit(rid, claim, number, msgpack.packb([text, 1, 0]))

    def finish(self, rid: str, end: End, claim: str = "c1") -> None:
        assert self.way.do(self.way.moves.finish(rid, Fence.claim(claim), end)).ok

    def describe_next(self, answer: dict[str, Any]) -> str:
        """Do a preprocessing as a worker does it; its id."""
        task, _ = self.next_task()
        begun = self.way.begin(task.rid, task.token)
        end = End.done(answer)
        assert self.way.do(self.way.moves.finish(task.rid, Fence.owner(begun.attempt, WORKER), end)).ok
        return task.rid
