"""Which node and which lane a request goes to. Pure: the register is an argument."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from enum import StrEnum

from forebay.errors import Failed, Rejected
from forebay.task import Kind
from handoff.nodes import NodeView, ProcessorOffer

_INTERACTIVE_BYTES = 4 << 20  # a few photographs; more would hold up a caller who waits for one
_INTERACTIVE_ITEMS = 4


def served_models(nodes: Sequence[NodeView]) -> dict[str, ProcessorOffer]:
    """Every model that some node can preprocess for."""
    return {offer.model: offer for node in nodes for offer in node.processors.values()}


class ReadyFor(StrEnum):
    """What a deployment must be able to do before it calls itself ready."""

    GENERATE = "generate"
    PREPROCESS = "preprocess"


def lacks(nodes: Sequence[NodeView], ready_for: ReadyFor) -> str:
    """Why no work could be done now; empty when some could."""
    working = [node for node in nodes if node.processors]
    if not working:
        return "no worker is up"
    pooled = [node for node in working if node.pool.get("data_bytes")]
    if not pooled:
        return "no node has a feature pool"
    if ready_for is ReadyFor.GENERATE and not any(set(node.engines) & set(node.processors) for node in pooled):
        return "no scheduler is up"
    return ""


def choose_model(wanted: str | None, nodes: Sequence[NodeView]) -> str:
    """The model of a request that may leave it out when there is one.

    Raises:
        Failed: no worker is up, or none has a processor for it that works.
        Rejected: unknown, or several and none named.
    """
    served = sorted(served_models(nodes))
    if not served:
        raise Failed("no_workers", "no worker is up", status=503, retry_after_s=5)
    if wanted is None and len(served) == 1:
        return served[0]
    if wanted is None:
        raise Rejected("model_required", f"several models are served, name one: {', '.join(served)}", param="model")
    if wanted not in served and any(wanted in node.broken for node in nodes):
        raise Failed("processor_broken", f"model {wanted!r}: its package cannot be loaded", status=503)
    if wanted not in served:
        message = f"model {wanted[:128]!r} is not served; served are: {', '.join(served)}"
        raise Rejected("model_not_found", message, param="model", status=404)
    return wanted


def choose_node(model: str, kind: Kind, nodes: Sequence[NodeView], lately: Collection[str] = ()) -> str:
    """The node with the emptiest pool among those that can do the whole job; any of several that are equal.

    Args:
        model: that some node serves.
        kind: what is wanted.
        nodes: as they are now.
        lately: models whose engine was there a while ago, and so may be starting anew.

    Raises:
        Rejected: the model has no engine anywhere.
        Failed: it had one lately.
    """
    able = [node for node in nodes if model in node.processors]
    if kind is Kind.GENERATE:
        able = [node for node in able if model in node.engines]
        if not able and model in lately:
            raise Failed("engine_away", f"the scheduler of {model!r} is away", status=503, retry_after_s=2)
        if not able:
            message = f"model {model!r} has no engine running; /v1/preprocess works without one"
            raise Rejected("no_engine", message, param="model", status=409)
    return min(able, key=lambda node: (_pool_use(node), random.random())).name  # noqa: S311 - equals share


def _pool_use(node: NodeView) -> float:
    used, whole = int(node.pool.get("used_bytes", 0)), int(node.pool.get("data_bytes", 1))
    return used / max(1, whole)


def choose_lane(sizes_bytes: Sequence[int]) -> str:
    """Requests without media never wait behind media, and small ones not behind large ones."""
    if not sizes_bytes:
        return "text"
    small = len(sizes_bytes) <= _INTERACTIVE_ITEMS and sum(sizes_bytes) <= _INTERACTIVE_BYTES
    return "interactive" if small else "bulk"
