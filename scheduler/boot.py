"""A scheduler process from start to end: load the engine, open the pool, run the loop, drain."""

from __future__ import annotations

import logging
import signal
import sys
import time
from types import FrameType

from forebay.engine import Engine
from forebay.errors import ConfigurationError, Failed
from forebay.notify import notify
from forebay.plugins import engine_class
from handoff.connection import require
from scheduler.loop import Scheduler
from scheduler.opening import open_intake
from scheduler.settings import SchedulerSettings

log = logging.getLogger(__name__)


def run_scheduler(settings: SchedulerSettings, engine_type: type[Engine] | None = None) -> int:
    """Run until told to stop; the exit status.

    Args:
        settings: the model, and where it finds its work.
        engine_type: an engine to run instead of the one that a package brings for the model.

    Raises:
        ConfigurationError: no engine for the model, or no pool.
    """
    require(settings.redis_url)
    model = settings.processors.of(settings.model)
    engine = _load_engine(settings, engine_type or engine_class(model, settings.allowed_packages))
    try:
        with open_intake(settings) as intake:
            scheduler = Scheduler(intake, engine, settings.secret, settings.drain_s)
            _stop_on_signals(scheduler)
            _start(scheduler)
            scheduler.run()
    finally:
        engine.close()
    return 0


def _load_engine(settings: SchedulerSettings, cls: type[Engine] | None) -> Engine:
    if cls is None:
        raise ConfigurationError(f"model {str(settings.model)!r} has no engine that can run it")
    began = time.monotonic()
    engine = cls.create(settings.model)
    log.info("engine loaded", extra={"model": settings.model.name, "seconds": round(time.monotonic() - began, 2)})
    return engine


def _start(scheduler: Scheduler) -> None:
    try:
        scheduler.announce()
    except Failed as error:
        raise ConfigurationError(f"REDIS_URL: {error.message}") from error
    log.info("scheduler ready", extra={"model": scheduler.intake.model, "scheduler": scheduler.intake.scheduler})
    notify(READY=1)


def _stop_on_signals(scheduler: Scheduler) -> None:
    """The first signal drains, the second ends."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if scheduler.is_stopping:
            sys.exit(128 + number)
        scheduler.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
