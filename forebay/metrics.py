"""The metrics table: every metric that Forebay exports, its labels and its unit, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, as ``/metrics`` shows it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)

REQUESTS = Metric(
    "forebay_requests", "counter", "Requests answered, by how they ended.", ("route", "model", "state", "code")
)
REQUEST_SECONDS = Metric(
    "forebay_request_seconds", "histogram", "From a request's arrival to its answer.", ("route", "model"), _SECONDS
)
WAITING = Metric("forebay_waiting_callers", "gauge", "Callers that wait at this process for an answer.")
LIVE = Metric("forebay_live_requests", "gauge", "Requests of the deployment between accepted and ended.")
QUEUED = Metric("forebay_queued_tasks", "gauge", "Tasks waiting on a node's queue.", ("node", "lane"))
PARKED = Metric("forebay_parked_tickets", "gauge", "Tickets waiting for a scheduler.", ("node", "model"))
POOL_BYTES = Metric("forebay_pool_bytes", "gauge", "Size of a node's feature pool.", ("node",))
POOL_USED_BYTES = Metric("forebay_pool_used_bytes", "gauge", "Bytes of a node's pool that are taken.", ("node",))
POOL_BLOCKS = Metric("forebay_pool_blocks", "gauge", "Blocks of a node's pool that are taken.", ("node",))

TABLE = (REQUESTS, REQUEST_SECONDS, WAITING, LIVE, QUEUED, PARKED, POOL_BYTES, POOL_USED_BYTES, POOL_BLOCKS)
