"""The API's metrics: what it counted itself, and what it reads from Redis when it is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from api.register import Register
from api.replies import Replies
from forebay import metrics as table
from forebay.errors import Problem
from forebay.metrics import Metric
from forebay.states import State
from handoff import quarantine, shadow
from handoff.connection import AsyncClient, redis_failures
from handoff.keys import LANES, Keys
from handoff.nodes import NodeView

_KINDS: dict[str, Any] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


class Metrics:
    """A registry with every metric of the table."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counted = CountedElsewhere()
        self.registry.register(self._counted)
        elsewhere = (*table.COUNTED_BY_A_POOL.values(), table.QUARANTINED, *table.BY_SHADOWS)
        self._by_name = {metric.name: self._make(metric) for metric in table.TABLE if metric not in elsewhere}

    def _make(self, metric: Metric) -> Any:
        extra = {"buckets": metric.buckets} if metric.buckets else {}
        return _KINDS[metric.kind](metric.name, metric.help, metric.labels, registry=self.registry, **extra)

    def __getitem__(self, metric: Metric) -> Any:
        return self._by_name[metric.name]

    def answered(self, route: str, model: str, state: str, code: str, elapsed_s: float) -> None:
        """Count one answer."""
        self[table.REQUESTS].labels(route, model, state, code).inc()
        self[table.REQUEST_SECONDS].labels(route, model).observe(elapsed_s)

    def refused(self, path: str, problem: Problem) -> None:
        """Count what never became a request: refused at the door, or by a tier that cannot take it."""
        route = path.removeprefix("/v1/").strip("/").partition("/")[0]
        state = State.REJECTED if problem.status < 500 else State.FAILED
        self[table.REQUESTS].labels(route, "", state, problem.code).inc()

    async def render(self, redis: AsyncClient, keys: Keys, register: Register, replies: Replies) -> bytes:
        """The text that Prometheus reads."""
        self[table.WAITING].set(replies.waiting)
        nodes = await register.nodes()
        with redis_failures():
            self[table.LIVE].set(await redis.zcard(keys.due))
        for gauge in (table.QUEUED, table.PARKED, table.PROCESSOR, table.BROKEN, *table.OF_A_POOL.values()):
            self[gauge].clear()  # a node that has gone leaves no series behind
        # A node whose workers are away has no counters: zero would look like a fresh start, and its end like a leap.
        self._counted.by_node = {node.name: node.pool.get("counters", {}) for node in nodes}
        self._counted.quarantined = await quarantine.counts(redis, keys)
        for node in nodes:
            await self._of_node(node, redis, keys)
        await self._of_shadows({model for node in nodes for model in node.processors}, redis, keys)
        return generate_latest(self.registry)

    async def _of_shadows(self, models: Collection[str], redis: AsyncClient, keys: Keys) -> None:
        self[table.SHADOW_ERROR].clear()
        found = {model: await shadow.counts_of(redis, keys, model) for model in models}
        self._counted.by_shadow = {model: one.counts for model, one in found.items() if one.counts}
        for model in self._counted.by_shadow:
            self[table.SHADOW_ERROR].labels(model).set(found[model].max_abs_error)

    async def _of_node(self, node: NodeView, redis: AsyncClient, keys: Keys) -> None:
        with redis_failures():
            for lane in LANES:
                length: Any = redis.llen(keys.queue(node.name, lane))
                self[table.QUEUED].labels(node.name, lane).set(await length)
            for model, offer in node.processors.items():
                parked: Any = redis.zcard(keys.parked(node.name, model))
                self[table.PARKED].labels(node.name, model).set(await parked)
                self[table.PROCESSOR].labels(node.name, model, offer.fingerprint).set(1)
        for model in node.broken:
            self[table.BROKEN].labels(node.name, model).set(1)
        for fact, gauge in table.OF_A_POOL.items():
            if fact in node.pool:
                self[gauge].labels(node.name).set(node.pool[fact])


class CountedElsewhere(Collector):
    """Counters that a node's pool or Redis keeps; this process only passes them on."""

    def __init__(self) -> None:
        self.by_node: Mapping[str, Mapping[str, int]] = {}
        self.quarantined: Mapping[str, int] = {}
        self.by_shadow: Mapping[str, Mapping[str, int]] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        for fact, metric in table.COUNTED_BY_A_POOL.items():
            family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for node, counters in self.by_node.items():
                if fact in counters:
                    family.add_metric([node], counters[fact])
            yield family
        set_aside = table.QUARANTINED
        family = CounterMetricFamily(set_aside.name, set_aside.help, labels=set_aside.labels)
        for reason, count in sorted(self.quarantined.items()):
            family.add_metric([reason], count)
        yield family
        yield from self._of_shadows()

    def _of_shadows(self) -> Iterator[CounterMetricFamily]:
        families = [CounterMetricFamily(one.name, one.help, labels=one.labels) for one in table.BY_SHADOWS]
        compared, differences, passed_over = families
        for model, counts in sorted(self.by_shadow.items()):
            for name, count in sorted(counts.items()):
                if name in ("equal", "different"):
                    compared.add_metric([model, name], count)
                elif name.startswith(shadow.IN):
                    differences.add_metric([model, name.removeprefix(shadow.IN)], count)
                elif name.startswith(shadow.PASSED_OVER):
                    passed_over.add_metric([model, name.removeprefix(shadow.PASSED_OVER)], count)
        yield from families
