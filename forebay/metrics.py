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
POOL_USED_BYTES = Metric("forebay_pool_used_bytes", "gauge", "Bytes of a node's pool that somebody holds.", ("node",))
POOL_BLOCKS = Metric("forebay_pool_blocks", "gauge", "Blocks of a node's pool that somebody holds.", ("node",))
POOL_WAITING = Metric("forebay_pool_waiting", "gauge", "Workers of a node that wait for room in its pool.", ("node",))
CACHED_BYTES = Metric("forebay_cache_bytes", "gauge", "Bytes of cached features that nobody holds.", ("node",))
CACHE_ENTRIES = Metric("forebay_cache_entries", "gauge", "Cached features, held or not.", ("node",))

OF_A_POOL = {
    "data_bytes": POOL_BYTES,
    "used_bytes": POOL_USED_BYTES,
    "blocks": POOL_BLOCKS,
    "waiting": POOL_WAITING,
    "cached_bytes": CACHED_BYTES,
    "entries": CACHE_ENTRIES,
}
"""The gauges of a node's pool, by the fact that the node announces."""


def _counted(name: str, help_text: str) -> Metric:
    return Metric(name, "counter", help_text, ("node",))


COUNTED_BY_A_POOL = {
    "hits": _counted("forebay_cache_hits", "Items whose features were found in the cache."),
    "misses": _counted("forebay_cache_misses", "Items whose features were made for the cache."),
    "attaches": _counted("forebay_cache_attaches", "Items that another worker was making already."),
    "evictions": _counted("forebay_cache_evictions", "Cached features that made room."),
    "waits": _counted("forebay_pool_waits", "Times that a worker had to wait for room in the pool."),
    "waited_ms": _counted("forebay_pool_waited_ms", "Milliseconds that workers have waited for room."),
    "copied_bytes": _counted("forebay_copied_bytes", "Bytes of features that were not written in place."),
    "late_results": _counted("forebay_late_results", "Results that nobody wanted any more; their blocks were freed."),
    "orphans": _counted("forebay_orphaned_blocks", "Blocks of the dead that the janitor freed."),
}
"""What a node's pool has counted since it was made, by the name that the node announces it under."""

PROCESSOR = Metric(
    "forebay_processor", "gauge", "1 for each processor that a node runs.", ("node", "model", "fingerprint")
)
BROKEN = Metric("forebay_processor_broken", "gauge", "1 for each model that a node cannot serve.", ("node", "model"))
QUARANTINED = Metric("forebay_quarantined", "counter", "Messages and media that workers have set aside.", ("reason",))

SHADOW_COMPARED = Metric(
    "forebay_shadow_compared", "counter", "Requests that were prepared a second time, by verdict.", ("model", "verdict")
)
SHADOW_DIFFERENCES = Metric(
    "forebay_shadow_differences", "counter", "Of those, by what the two results differ in.", ("model", "kind")
)
SHADOW_PASSED_OVER = Metric(
    "forebay_shadow_passed_over",
    "counter",
    "Requests that were to be prepared a second time, and were not.",
    ("model", "why"),
)
SHADOW_ERROR = Metric(
    "forebay_shadow_max_abs_error", "gauge", "Largest absolute difference of two features of one item.", ("model",)
)

BY_SHADOWS = (SHADOW_COMPARED, SHADOW_DIFFERENCES, SHADOW_PASSED_OVER)
"""What shadows have counted, in Redis."""

TABLE = (
    REQUESTS,
    REQUEST_SECONDS,
    WAITING,
    LIVE,
    QUEUED,
    PARKED,
    *OF_A_POOL.values(),
    *COUNTED_BY_A_POOL.values(),
    PROCESSOR,
    BROKEN,
    QUARANTINED,
    *BY_SHADOWS,
    SHADOW_ERROR,
)
