"""The wire form of a Celery task on Redis, built without a broker connection.

Accepting and enqueuing are one Lua step, so the message goes into the queue by our own ``LPUSH``; it must be exactly
what ``Celery.send_task`` would have written. A test holds the two against each other.
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from typing import Any

import msgpack

from handoff.queue import TASK

EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
"""What a task could call when it is done. Ours call nothing."""


@dataclass(frozen=True, slots=True)
class Label:
    """What an operator sees of a task in Flower and in logs: no payload, low cardinality in the name."""

    name: str
    text: str

    @classmethod
    def of(cls, rid: str, attempt: int, model: str, items: int, size_bytes: int) -> Label:
        kib = -(-size_bytes // 1024)
        return cls(f"preprocess[{model}]", f"rid={rid} attempt={attempt} items={items} media={kib}KiB")


def envelope(task_id: str, queue: str, message: bytes, label: Label) -> bytes:
    """The queue entry that makes a worker call ``TASK(message)``."""
    body = base64.b64encode(msgpack.packb([[message], {}, EMBED])).decode()
    return json.dumps(
        {
            "body": body,
            "content-encoding": "binary",
            "content-type": "application/x-msgpack",
            "headers": _headers(task_id, label),
            "properties": _properties(task_id, queue, label),
        }
    ).encode()


def _headers(task_id: str, label: Label) -> dict[str, Any]:
    return {
        "lang": "py",
        "task": TASK,
        "id": task_id,
        "shadow": label.name,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": task_id,
        "parent_id": None,
        "argsrepr": label.text,
        "kwargsrepr": "{}",
        "origin": "forebay",
        "ignore_result": True,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }


def _properties(task_id: str, queue: str, label: Label) -> dict[str, Any]:
    return {
        "correlation_id": task_id,
        "reply_to": "",
        "argsrepr": label.text,
        "kwargsrepr": "{}",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": secrets.token_hex(16),
    }


def message_in(entry: bytes) -> bytes:
    """The message that ``envelope`` has put into a queue entry.

    Raises:
        ValueError: it is no such entry.
    """
    try:
        [message], _, _ = msgpack.unpackb(base64.b64decode(json.loads(entry)["body"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no queue entry: {type(error).__name__}: {error}") from error
    if not isinstance(message, bytes):
        raise ValueError(f"no queue entry: its message is of type {type(message).__name__}")
    return message


HEADERS = frozenset(_headers("", Label("", "")))
"""The names of the headers of an entry; a worker takes none with others."""
