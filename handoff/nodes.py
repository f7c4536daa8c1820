"""The register of nodes: what each offers now, and when it last gave a sign of life.

Every process of a node announces its part every few seconds; the API chooses among what is announced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handoff.connection import AsyncClient, Client, redis_failures, texts
from handoff.keys import Keys

ANNOUNCE_S = 2.0
_ENGINE = "engine:"
KEPT_MS = 24 * 3600 * 1000  # after a day of silence a node's name is forgotten; what it has in Redis ends then, too
SILENT_MS = 15_000  # a part that has not announced itself for this long is taken for gone


@dataclass(frozen=True, slots=True)
class ProcessorOffer:
    """A processor that the workers of a node run."""

    model: str
    fingerprint: str
    modalities: Mapping[str, int]
    extensions: bool = False


@dataclass(frozen=True, slots=True)
class NodeView:
    """What a node offers now."""

    name: str
    processors: Mapping[str, ProcessorOffer] = field(default_factory=dict)
    engines: tuple[str, ...] = ()
    pool: Mapping[str, Any] = field(default_factory=dict)
    """How full the node's feature pool is, and under ``counters`` what it has counted."""
    silent_engines: Mapping[str, int] = field(default_factory=dict)
    """Models whose scheduler has gone without a word, and for how long, in ms; one that stops in order says so."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Models that its workers were to serve and cannot, and why; for operators, since it may name files."""


def announce(client: Client, keys: Keys, node: str, part: str, facts: Mapping[str, Any]) -> None:
    """Say that a part (``workers``, ``engine:<model>``) of a node lives, and what it offers."""
    with redis_failures():
        seconds, micros = client.time()
        now = seconds * 1000 + micros // 1000
        pipe = client.pipeline(transaction=False)
        pipe.hset(keys.node(node), part, json.dumps({"at": now, **facts}))
        pipe.pexpire(keys.node(node), 10 * SILENT_MS)
        pipe.zadd(keys.nodes, {node: now})
        pipe.zremrangebyscore(keys.nodes, "-inf", now - KEPT_MS)
        pipe.pexpire(keys.nodes, KEPT_MS)
        pipe.execute()


def withdraw(client: Client, keys: Keys, node: str, part: str) -> None:
    """Say that a part stops now, so that nobody waits for its silence."""
    with redis_failures():
        client.hdel(keys.node(node), part)


def read_node(name: str, parts: Mapping[bytes, bytes], now_ms: int) -> NodeView:
    """What a node's announcements amount to; silent parts count as gone."""
    live = {part.decode(): json.loads(facts) for part, facts in parts.items()}
    silent = {_model_of(part): now_ms - facts["at"] for part, facts in live.items() if part.startswith(_ENGINE)}
    live = {part: facts for part, facts in live.items() if now_ms - facts["at"] < SILENT_MS}
    workers = live.get("workers", {})
    offers = [ProcessorOffer(**offer) for offer in workers.get("processors", [])]
    engines = tuple(sorted(_model_of(part) for part in live if part.startswith(_ENGINE)))
    silent = {model: silent_ms for model, silent_ms in silent.items() if model not in engines}
    named = {offer.model: offer for offer in offers}
    return NodeView(name, named, engines, workers.get("pool", {}), silent, workers.get("broken", {}))


def _model_of(part: str) -> str:
    return part.removeprefix(_ENGINE)


async def view_nodes(client: AsyncClient, keys: Keys) -> list[NodeView]:
    """Every node that gave a sign of life lately."""
    with redis_failures():
        seconds, micros = await client.time()
        now = seconds * 1000 + micros // 1000
        names = texts(await client.zrangebyscore(keys.nodes, now - SILENT_MS, "+inf"))
        parts: list[Any] = [await client.hgetall(keys.node(name)) for name in names]
    return [read_node(name, live, now) for name, live in zip(names, parts, strict=True)]


def live_nodes(client: Client, keys: Keys, now_ms: int) -> set[str]:
    """Names of the nodes that gave a sign of life lately."""
    with redis_failures():
        return set(texts(client.zrangebyscore(keys.nodes, now_ms - SILENT_MS, "+inf")))
