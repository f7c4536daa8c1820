"""The Celery application: the settings that the sending and the working side share, each with its reason.

Celery is the dispatcher; the record in Redis is the truth. A task carries one signed message and returns nothing.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from celery import Celery
from kombu.entity import Exchange, Queue

from forebay.settings import SharedSettings
from handoff.keys import LANES, queue_name

TASK = "forebay.preprocess"
HARD_LIMIT_S = 60  # ends code that does not return to Python
SOFT_LIMIT_S = 55
VISIBILITY_TIMEOUT_S = HARD_LIMIT_S + 30  # above the hard limit, or a slow task would run twice


def make_app(settings: SharedSettings, *, node: str | None = None, events: bool = False) -> Celery:
    """A Celery application of the deployment.

    Args:
        settings: broker and prefix.
        node: the node whose queues a worker consumes; senders need none.
        events: whether workers report task events for Flower; off where nobody watches, for
            each costs the worker's parent a message.
    """
    app = Celery("forebay", broker=broker_url(settings.redis_url), set_as_current=False)
    app.conf.update(
        task_acks_late=True,  # a message outlives the child that dies over it
        task_reject_on_worker_lost=True,  # and is tried again at once, bounded by the record's attempts
        task_acks_on_failure=True,  # a failure is in the record; Redis has no dead-letter exchange
        task_acks_on_timeout=True,  # otherwise a hard time limit would requeue for ever
        worker_prefetch_multiplier=1,  # more gave no throughput and hides the backlog in a worker
        task_time_limit=HARD_LIMIT_S,
        task_soft_time_limit=SOFT_LIMIT_S,
        task_ignore_result=True,  # the record is the result store
        task_store_errors_even_if_ignored=False,
        task_serializer="msgpack",
        accept_content=["msgpack"],  # nothing that could run code when it is read
        task_create_missing_queues=False,  # a typo must fail, not fill a list that nobody reads
        task_default_queue=queue_name(node or "none", "text"),
        task_queues=[_queue(node, lane) for lane in LANES] if node else [],
        worker_max_tasks_per_child=2000,  # codecs leak
        worker_proc_alive_timeout=120,  # a child imports torch before it answers; the default 4 s kills it
        worker_cancel_long_running_tasks_on_connection_loss=False,  # short tasks, published idempotently
        worker_hijack_root_logger=False,
        worker_send_task_events=events,
        task_send_sent_event=False,
        worker_enable_remote_control=True,  # Flower and `celery inspect`; cancels go through the record
        worker_enable_soft_shutdown_on_idle=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,  # never give up; readiness tells the operator
        control_queue_ttl=60.0,  # reply mailboxes of callers that died must not pile up
        control_queue_expires=60.0,
        event_queue_ttl=5.0,
        event_queue_expires=60.0,
        broker_transport_options={
            "global_keyprefix": settings.prefix,  # two deployments on one Redis never restore each other's tasks
            "visibility_timeout": VISIBILITY_TIMEOUT_S,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "unacked_mutex_expire": 15,  # a dead sweeper blocks restores for 15 s, not for 5 minutes
            "priority_steps": [0],  # lanes are queues; priorities order the index
            "health_check_interval": 5,
            "socket_timeout": 5,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "client_name": "forebay-celery",
        },
    )
    return app


def broker_url(redis_url: str) -> str:
    """The URL as kombu spells it: a socket file has a scheme of its own there."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    return f"redis+socket://{parts.path}?virtual_host={database}"


def _queue(node: str | None, lane: str) -> Queue:
    name = queue_name(node or "none", lane)
    return Queue(name, Exchange("mm", type="direct"), routing_key=name)
