"""The key table: every name that Forebay uses in Redis, in one place.

Keys with ``<node>`` end a day after something was last put there, if not sooner, and ``nodes`` forgets names that old.

| key | type | holds |
|---|---|---|
| ``{p}r:<rid>`` | hash | the record of a request; expires some time after its end |
| ``{p}due`` | zset | live request ids by their deadline, in ms |
| ``{p}watch:<node>:<model>`` | zset | a node's live request ids by the time, in ms, of their janitor's next look |
| ``{p}looked:<node>`` | hash | when, in ms, a node's janitor last looked at its requests, by model |
| ``{p}parked:<node>:<model>`` | zset | parked request ids by (priority, deadline) |
| ``{p}leases:<node>:<model>`` | zset | admitted request ids by the end, in ms, of the scheduler's lease |
| ``{p}wake:<node>:<model>`` | list | at most one token that ends an idle scheduler's wait |
| ``{p}claimed:<scheduler>`` | hash | nonce and result of a scheduler's last claim, against replays |
| ``{p}purge:<node>`` | list | tickets whose blocks nobody holds any more; the node's janitor frees them |
| ``{p}out:<api>`` | stream | events for the callers that wait at one API process |
| ``{p}log:<rid>`` | stream | events of a request that nobody waits for, for whoever follows it |
| ``{p}line:<node>:<lane>`` | zset | queued request ids by the time, in ms, since when they wait |
| ``{p}tenant:<tenant>`` | hash | live requests of a tenant, their bytes, and when the next one may come |
| ``{p}asked:<tenant>`` | zset | request ids of a tenant by the time, in ms, of their acceptance |
| ``{p}ended:<tenant>`` | zset | those of them that have ended, by the time, in ms, of their end |
| ``{p}upload:<tenant>:<digest>`` | string | size of media that a tenant has uploaded and may refer to |
| ``{p}nodes`` | zset | node names by the time, in ms, of their last sign of life |
| ``{p}node:<node>`` | hash | what a node offers: processors, engines, pool |
| ``{p}m:<digest>`` / ``{p}m:<digest>:<n>`` | string | media bytes, where the store is Redis: size, then chunks |
| ``{p}janitor:<node>`` | string | who sweeps a node now |
| ``{p}bell:<node>`` | list | at most one token that ends the wait of a node's idle worker |
| ``{p}taken:<node>:<life>:<lane>`` | list | messages that a worker has taken and not acknowledged |
| ``{p}takers:<node>`` | set | the lives of workers that have taken messages |
| ``{p}deaths:<node>`` | hash | how many workers have died with a message in hand, by its SHA-1; for an hour |
| ``{p}kills:<digest>`` | set | the lives of children that have died over an item; for a day |
| ``{p}refused`` | zset | digests of items that are not decoded any more, by the time of that; for a week |
| ``{p}quarantine`` | list | messages that no worker may run, and media that killed their workers; newest first |
| ``{p}quarantined`` | hash | how many entries the quarantine has had, by reason, and the bytes that are in it |
| ``{p}shadow:<model>`` | string | what a model's shadow wants of its requests; for seconds |
| ``{p}shadowed:<model>`` | list | requests that wait to be prepared a second time; for minutes |
| ``{p}shadow-found:<model>`` | hash | what a shadow has counted; for a week |
| ``{p}shadow-mark:<call>`` | string | that a shadow's call was counted, against replays; for a minute |
| ``{p}shadow-notes:<model>`` | list | the latest requests that a shadow has prepared otherwise; for a week |
| ``mm.<node>.<lane>`` (with ``{p}`` before it) | list | the Celery queue of a node |
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = ("text", "interactive", "bulk")


def queue_name(node: str, lane: str) -> str:
    """The Celery queue of a node and a lane."""
    return f"mm.{node}.{lane}"


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names of one deployment. Two deployments on one Redis never see each other's."""

    prefix: str

    @property
    def due(self) -> str:
        return f"{self.prefix}due"

    @property
    def nodes(self) -> str:
        return f"{self.prefix}nodes"

    @property
    def records(self) -> str:
        """What precedes a request id in the key of its record."""
        return f"{self.prefix}r:"

    def record(self, rid: str) -> str:
        return f"{self.records}{rid}"

    def parked(self, node: str, model: str) -> str:
        return f"{self.prefix}parked:{node}:{model}"

    def watch(self, node: str, model: str) -> str:
        return f"{self.prefix}watch:{node}:{model}"

    def looked(self, node: str) -> str:
        return f"{self.prefix}looked:{node}"

    def leases(self, node: str, model: str) -> str:
        return f"{self.prefix}leases:{node}:{model}"

    def wake(self, node: str, model: str) -> str:
        return f"{self.prefix}wake:{node}:{model}"

    def claimed(self, scheduler: str) -> str:
        return f"{self.prefix}claimed:{scheduler}"

    def purge(self, node: str) -> str:
        return f"{self.prefix}purge:{node}"

    def out(self, api: str) -> str:
        return f"{self.prefix}out:{api}"

    def log(self, rid: str) -> str:
        return f"{self.prefix}log:{rid}"

    def line(self, node: str, lane: str) -> str:
        return f"{self.prefix}line:{node}:{lane}"

    def tenant(self, tenant: str) -> str:
        return f"{self.prefix}tenant:{tenant}"

    def asked(self, tenant: str) -> str:
        return f"{self.prefix}asked:{tenant}"

    def ended(self, tenant: str) -> str:
        return f"{self.prefix}ended:{tenant}"

    def upload(self, tenant: str, digest: str) -> str:
        return f"{self.prefix}upload:{tenant}:{digest}"

    def node(self, node: str) -> str:
        return f"{self.prefix}node:{node}"

    def janitor(self, node: str) -> str:
        return f"{self.prefix}janitor:{node}"

    def bell(self, node: str) -> str:
        return f"{self.prefix}bell:{node}"

    def taken(self, node: str, life: str, lane: str) -> str:
        return f"{self.prefix}taken:{node}:{life}:{lane}"

    def takers(self, node: str) -> str:
        return f"{self.prefix}takers:{node}"

    def kills(self, digest: str) -> str:
        return f"{self.prefix}kills:{digest}"

    @property
    def refused(self) -> str:
        return f"{self.prefix}refused"

    @property
    def quarantine(self) -> str:
        return f"{self.prefix}quarantine"

    @property
    def quarantined(self) -> str:
        return f"{self.prefix}quarantined"

    def shadow(self, model: str) -> str:
        return f"{self.prefix}shadow:{model}"

    def shadowed(self, model: str) -> str:
        return f"{self.prefix}shadowed:{model}"

    def shadow_found(self, model: str) -> str:
        return f"{self.prefix}shadow-found:{model}"

    def shadow_notes(self, model: str) -> str:
        return f"{self.prefix}shadow-notes:{model}"

    def media(self, digest: str) -> str:
        return f"{self.prefix}m:{digest}"

    def queue(self, node: str, lane: str) -> str:
        """The Redis list behind a Celery queue."""
        return f"{self.prefix}{queue_name(node, lane)}"
