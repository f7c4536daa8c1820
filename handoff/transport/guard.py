"""What a queue entry must be before Celery sees it. A pure check: the channel acts on what it finds.

Celery trusts its broker: what is no JSON ends the worker's parent, a compressed body is unpacked at whatever size, an
embedded callback calls any task that is registered. Here nothing passes but what ``handoff.envelope`` writes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from forebay.task import MAX_MESSAGE_BYTES
from handoff.envelope import EMBED, HEADERS
from handoff.queue import TASK

# A full message in base64 is 22 KiB; names and the label around it are bounded far below the rest.
MAX_ENTRY_BYTES = 2 * MAX_MESSAGE_BYTES

# Headers that a sender may set and Celery acts upon: the one value that ours have, and what another is called.
_FIXED: Mapping[str, tuple[Any, str]] = {
    "eta": (None, "delayed"),  # held in memory by the parent, each raising its prefetch by one
    "expires": (None, "delayed"),  # the record has the deadline
    "timelimit": ([None, None], "time_limit"),  # ours are the worker's; a text ends the parent
    "retries": (0, "unexpected_header"),
    "group": (None, "callback"),
    "group_index": (None, "callback"),
    "parent_id": (None, "callback"),
    "replaced_task_nesting": (0, "callback"),
    "stamped_headers": (None, "unexpected_header"),
    "stamps": ({}, "unexpected_header"),
    "ignore_result": (True, "unexpected_header"),
}
_TEXTS = ("id", "root_id", "shadow", "argsrepr", "kwargsrepr", "origin", "lang")
_REDELIVERED = "redelivered"  # kombu's own mark on what it has put back


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an entry may not pass: one of few codes, and the particulars."""

    reason: str
    detail: str


class _FaultyError(Exception):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = Fault(reason, detail)


def fault_of(entry: bytes) -> Fault | None:
    """What is wrong with a queue entry; ``None`` when Celery may have it. Never raises."""
    try:
        _check(entry)
    except _FaultyError as faulty:
        return faulty.fault
    except Exception as error:  # noqa: BLE001 - whatever a hostile entry makes a parser raise, the worker lives on
        return Fault("not_an_envelope", f"{type(error).__name__}: {error}")
    return None


def _check(entry: bytes) -> None:
    if len(entry) > MAX_ENTRY_BYTES:
        raise _FaultyError("too_large", f"{len(entry)} bytes; the limit is {MAX_ENTRY_BYTES}")
    fields = _fields(entry)
    _check_content(fields)
    _check_headers(fields["headers"])
    _check_properties(fields["properties"])
    _check_body(fields["body"])


def _fields(entry: bytes) -> Mapping[str, Any]:
    try:
        fields = json.loads(entry)
    except (ValueError, RecursionError) as error:
        raise _FaultyError("not_json", str(error)) from error
    wanted = {"body": str, "headers": dict, "properties": dict}
    if not isinstance(fields, dict):
        raise _FaultyError("not_an_envelope", f"a JSON {type(fields).__name__}")
    wrong = [name for name, kind in wanted.items() if not isinstance(fields.get(name), kind)]
    if wrong:
        raise _FaultyError("not_an_envelope", f"no {', no '.join(wrong)}")
    return fields


def _check_content(fields: Mapping[str, Any]) -> None:
    content = fields.get("content-type"), fields.get("content-encoding")
    if content != ("application/x-msgpack", "binary"):
        raise _FaultyError("foreign_content", f"{content[0]!r} in {content[1]!r}")
    if "compression" in fields["headers"]:
        raise _FaultyError("compressed", f"with {fields['headers']['compression']!r}")


def _check_headers(headers: Mapping[str, Any]) -> None:
    if not (isinstance(headers.get("id"), str) and headers["id"]):
        raise _FaultyError("no_id", f"its id is {headers.get('id')!r}")
    if headers.get("task") != TASK:
        raise _FaultyError("unknown_task", f"{headers.get('task')!r}")
    for name, value in headers.items():
        fixed, reason = _FIXED.get(name, (value, ""))
        if value != fixed:
            raise _FaultyError(reason, f"{name} is {value!r}")
        if name in _TEXTS and not isinstance(value, str):
            raise _FaultyError("unexpected_header", f"{name} is {value!r}")
    if any(name in headers for name in EMBED):
        raise _FaultyError("callback", "a header that names other tasks")
    unknown = headers.keys() - HEADERS - {_REDELIVERED}
    if unknown:
        raise _FaultyError("unexpected_header", f"{', '.join(sorted(unknown))}")


def _check_properties(properties: Mapping[str, Any]) -> None:
    wanted = {"delivery_tag": str, "delivery_info": dict, "body_encoding": str}
    wrong = [name for name, kind in wanted.items() if not isinstance(properties.get(name), kind)]
    if wrong:
        raise _FaultyError("not_an_envelope", f"no {', no '.join(wrong)}")
    if properties["body_encoding"] != "base64":
        raise _FaultyError("foreign_content", f"its body is in {properties['body_encoding']!r}")


def _check_body(body: str) -> None:
    try:
        args = msgpack.unpackb(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError, msgpack.UnpackException, RecursionError) as error:
        raise _FaultyError("bad_arguments", f"{type(error).__name__}: {error}") from error
    match args:
        case [[bytes()], named, embed] if (named, embed) == ({}, EMBED):
            return
        case [[bytes()], named, dict()] if named == {}:
            raise _FaultyError("callback", "a body that names other tasks")
    raise _FaultyError("bad_arguments", "not one message of bytes")
