"""Logs are events: a short fixed name and fields, one line each, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Celery hangs its own objects on records; they are not fields of ours.
_FOREIGN = frozenset({"data", "color_message"})


class EventFormatter(logging.Formatter):
    """``2026-01-01 12:00:00,000 INFO worker  event  field=value …``"""

    def __init__(self, part: str) -> None:
        super().__init__(f"%(asctime)s %(levelname)-7s {part}[%(process)d]  %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fields = {k: v for k, v in vars(record).items() if k not in _STANDARD and k not in _FOREIGN}
        if not fields:
            return line
        head, newline, traceback = line.partition("\n")
        return f"{head}  {' '.join(f'{k}={_plain(v)}' for k, v in fields.items())}{newline}{traceback}"


def _plain(value: Any) -> str:
    text = str(value)
    return text if text and not any(mark in text for mark in ' "=\n') else json.dumps(text)


def set_up(part: str, level: str) -> None:
    """Send every logger's events to standard error. Called once, in a process' ``main``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(EventFormatter(part))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
