"""What a worker makes sure of before it takes a message: Celery is set as the guarantees need it, and so is Redis.

A setting can be changed behind our back, by one of Celery's own environment variables or by a release that names it
otherwise; the guarantees would be gone and nothing would say so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from celery import Celery

from forebay.errors import ConfigurationError, ForebayError
from handoff.connection import Client, redis_failures
from handoff.queue import Limits, broker_url
from handoff.transport.release import difference

log = logging.getLogger(__name__)


def check_celery(app: Celery, settings: Mapping[str, Any], redis_url: str, limits: Limits) -> None:
    """Compare an application with what it should be; every difference is a line of the log.

    Raises:
        ConfigurationError: naming all differences.
    """
    wrong = [
        *filter(None, [difference()]),
        *_differences(app.conf, settings),
        *_elsewhere(app, redis_url),
        *_impossible(limits),
    ]
    for one in wrong:
        log.error("the queue is not set as it must be", extra={"reason": one})
    if wrong:
        raise ConfigurationError("; ".join(wrong))


def _differences(conf: Any, settings: Mapping[str, Any]) -> Iterator[str]:
    for name, wanted in settings.items():
        found = getattr(conf, name)  # not ``conf[name]``: some are taken from the environment on the way
        if found != wanted:
            yield f"Celery's {name} is {found!r}; {wanted!r} is needed"


def _elsewhere(app: Celery, redis_url: str) -> Iterator[str]:
    wanted = broker_url(redis_url)
    for name in ("broker_read_url", "broker_write_url"):
        if getattr(app.conf, name) != wanted:  # the value may hold a password
            yield f"Celery's {name} is not REDIS_URL: is CELERY_{name.upper()} or CELERY_BROKER_URL set?"


def _impossible(limits: Limits) -> Iterator[str]:
    if not 0 < limits.soft_s < limits.hard_s < limits.visibility_s:
        told = f"soft {limits.soft_s:g} s, hard {limits.hard_s:g} s, visibility {limits.visibility_s:g} s"
        yield f"time limits must rise: {told}"


def check_server(redis: Client) -> None:
    """Say in the log what of the server's settings can lose requests; it may be meant so."""
    for name, wanted, danger in (
        ("maxmemory-policy", "noeviction", "a full Redis deletes queues and records"),
        ("appendonly", "yes", "a Redis that ends loses what was accepted; `forebay up` keeps it with --data-dir"),
    ):
        try:
            with redis_failures():
                found: Any = redis.config_get(name)
        except ForebayError:  # the user of a managed Redis may not ask
            return
        value = found.get(name, wanted)
        if value != wanted:
            log.warning("Redis is not set as it should be", extra={"setting": name, "value": value, "reason": danger})
