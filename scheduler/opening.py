"""Opening an intake: the node's pool, a life of our own on the node, a connection; and closing it again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from forebay.errors import ConfigurationError
from handoff.connection import connect
from handoff.keys import Keys
from handoff.moves import Moves
from handoff.pool import Pool
from scheduler.intake import Intake
from scheduler.ranks import Ranks, begin_life
from scheduler.settings import SchedulerSettings

_LOOK_FOR_POOL_EVERY_S = 0.2


@contextmanager
def open_intake(settings: SchedulerSettings, ranks: Ranks | None = None) -> Iterator[Intake]:
    """An intake for the time of the block. With several ranks every rank opens one, in step with the others.

    Raises:
        ConfigurationError: no pool, another installation's pool, or a rank that does not come.
    """
    _wait_for_pool(settings)
    life = begin_life(settings.folder, ranks)
    try:
        pool = Pool(settings.pool_path, life.id, writable=False, installation=settings.installation)
        redis = connect(settings.redis_url, f"scheduler-{settings.model.name}")
        yield Intake(redis, Moves(Keys(settings.prefix)), pool, settings.node, settings.model.name, ranks)
    finally:
        life.close()


def _wait_for_pool(settings: SchedulerSettings) -> None:
    give_up_at = time.monotonic() + settings.pool_wait_s
    while not settings.pool_path.exists():
        if time.monotonic() > give_up_at:
            raise ConfigurationError(f"no feature pool at {settings.pool_path}; the node's worker makes it")
        time.sleep(_LOOK_FOR_POOL_EVERY_S)
