"""The Celery application: the settings that the sending and the working side share, each with its reason.

Celery is the dispatcher; the record in Redis is the truth. A task carries one signed message and returns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from celery import Celery
from celery.app.amqp import AMQP
from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from forebay.sentinels import SCHEME, Sentinels
from forebay.settings import SharedSettings
from handoff.connection import to_a_sentinel
from handoff.keys import LANES, queue_name

TASK = "forebay.preprocess"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one task, and one child, may take before it is ended or replaced.

    Attributes:
        soft_s: the task is told, and ends its request as ``time_limit``.
        hard_s: its child is killed: it is in code that does not return to Python. The record counts the attempt.
        child_tasks: a child that has done so many is replaced, because codecs leak.
        child_rss_bytes: so is one that has more memory of its own than this after a task; 0 for no limit.
    """

    soft_s: float = 55
    hard_s: float = 60
    child_tasks: int = 2000
    child_rss_bytes: int = 0

    @property
    def visibility_s(self) -> float:
        """Above the hard limit, or a slow task would run twice."""
        return self.hard_s + 30


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class QueueWorker:
    """Who consumes a node's queues: its worker, by the name of its life."""

    node: str
    life: str = ""
    """``''`` for kombu's own transport, which can lose what it pops."""
    limits: Limits = LIMITS
    events: bool = False
    """Whether task events are reported for Flower; off where nobody watches, for each costs the parent a message."""


class Broker(Connection):
    """A connection that keeps its transport."""

    def switch(self, conn_str: str) -> None:
        """Go on with the next of several addresses.

        kombu would take the transport that the address names, which is its own: whatever were consumed after the first
        failed try would be popped before it is noted.
        """
        ours = self.transport_cls
        super().switch(conn_str)  # type: ignore[no-untyped-call]
        if isinstance(ours, type):
            self.transport_cls = ours


class WorkerAMQP(AMQP):  # type: ignore[misc]
    """Celery's, with our connections."""

    Connection = Broker


class WorkerApp(Celery):  # type: ignore[misc]
    """An application that consumes over our transport, and sends replies and events over kombu's."""

    amqp_cls = "handoff.queue:WorkerAMQP"

    def connection_for_read(self, url: str | None = None, **kwargs: Any) -> Any:
        """Overridden here because a URL of a socket file names its transport, whatever the settings say."""
        from handoff.transport import SentinelTransport, Transport

        connection = super().connection_for_read(url, **kwargs)
        is_watched = "master_name" in self.conf.broker_transport_options
        connection.transport_cls = SentinelTransport if is_watched else Transport
        return connection


def make_app(settings: SharedSettings, worker: QueueWorker | None = None) -> Celery:
    """A Celery application of the deployment.

    Args:
        settings: broker and prefix.
        worker: who consumes; senders need none.
    """
    made = WorkerApp if worker and worker.life else Celery
    app = made("forebay", broker=broker_url(settings.redis_url), set_as_current=False)
    app.conf.update(celery_settings(settings, worker))
    return app


def celery_settings(settings: SharedSettings, worker: QueueWorker | None = None) -> dict[str, Any]:
    """Every setting that differs from Celery's own default or that a guarantee rests on, with its reason."""
    node = worker.node if worker else ""
    limits = worker.limits if worker else LIMITS
    return {
        "task_acks_late": True,  # a message outlives the child that dies over it
        "task_reject_on_worker_lost": True,  # and is tried again at once, bounded by the record's attempts
        "task_retry_on_worker_lost": False,  # it would send another message; the record counts the attempts
        "task_acks_on_failure": True,  # a failure is in the record; Redis has no dead-letter exchange
        "task_acks_on_timeout": True,  # otherwise a hard time limit would requeue for ever; the record is looked at
        "worker_prefetch_multiplier": 1,  # more gave no throughput and hides the backlog in a worker
        "worker_eta_task_limit": 1,  # none comes past the guard; each would raise the prefetch by one
        "task_time_limit": limits.hard_s,
        "task_soft_time_limit": limits.soft_s,
        "task_ignore_result": True,  # the record is the result store
        "task_store_errors_even_if_ignored": False,
        "result_backend": None,  # a round trip a task, for what nobody reads
        "task_serializer": "msgpack",
        "accept_content": ["msgpack"],  # nothing that could run code when it is read
        "task_compression": None,  # a receiver would unpack whatever size comes out
        "task_create_missing_queues": False,  # a typo must fail, not fill a list that nobody reads
        "task_default_queue": queue_name(node or "none", "text"),
        "task_queues": [_queue(node, lane) for lane in LANES] if node else [],
        "task_publish_retry_policy": {"max_retries": 2, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2},
        "worker_max_tasks_per_child": limits.child_tasks,
        "worker_max_memory_per_child": limits.child_rss_bytes // 1024 or None,  # measured by ``workers.child``
        "worker_proc_alive_timeout": 120,  # a child imports torch before it answers; the default 4 s kills it
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # short tasks, published idempotently
        "worker_enable_prefetch_count_reduction": True,  # what runs across a reconnect counts
        "worker_hijack_root_logger": False,
        "worker_send_task_events": bool(worker and worker.events),
        "task_send_sent_event": False,
        "worker_enable_remote_control": True,  # Flower and `celery inspect`; cancels go through the record
        "worker_enable_soft_shutdown_on_idle": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,  # never give up; readiness tells the operator
        "control_queue_ttl": 60.0,  # reply mailboxes of callers that died must not pile up
        "control_queue_expires": 60.0,
        "event_queue_ttl": 5.0,
        "event_queue_expires": 60.0,
        "broker_transport_options": _transport_options(settings, limits, worker),
    }


def _transport_options(settings: SharedSettings, limits: Limits, worker: QueueWorker | None) -> dict[str, Any]:
    slot = {"node": worker.node, "life": worker.life} if worker and worker.life else {}
    return (
        slot
        | _watched(settings.redis_url)
        | {
            "global_keyprefix": settings.prefix,  # two deployments on one Redis never restore each other's tasks
            # Of messages that kombu's own transport notes: those that a worker of an earlier release has left.
            "visibility_timeout": limits.visibility_s,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": 15,  # a dead sweeper blocks restores for 15 s, not for 5 minutes
            "priority_steps": [0],  # lanes are queues; priorities order the index
            "queue_order_strategy": "round_robin",  # no lane waits while another is busy
            "health_check_interval": 5,
            "socket_timeout": 5,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "client_name": "forebay-celery",
        }
    )


def _watched(redis_url: str) -> dict[str, Any]:
    if not redis_url.startswith(SCHEME):
        return {}
    found = Sentinels.read(redis_url)
    return {"master_name": found.master, "sentinel_kwargs": to_a_sentinel(found)}


def broker_url(redis_url: str) -> str:
    """The URL as kombu spells it: a socket file has a scheme of its own there, and each Sentinel a URL."""
    if redis_url.startswith(SCHEME):
        return Sentinels.read(redis_url).broker_url
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={database}"


def _queue(node: str, lane: str) -> Queue:
    name = queue_name(node, lane)
    return Queue(name, Exchange("mm", type="direct"), routing_key=name)
