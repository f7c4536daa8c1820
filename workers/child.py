"""A child of the worker: what it opens after the fork, and the one thing it does with a message."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import replace
from functools import partial

from forebay.errors import ConfigurationError, ForebayError
from forebay.plugins import BrokenPackageError, LoadedProcessor, load_processor
from forebay.processor import WorkerStart
from handoff.connection import connect
from handoff.keys import Keys
from handoff.media import open_store
from handoff.moves import Moves
from handoff.pool import FeatureCache, Owner, Pool
from workers.cores import limit_threads, share_of
from workers.driver import Driver
from workers.offers import Offers
from workers.settings import WorkerSettings
from workers.unwanted import SIGNAL

log = logging.getLogger(__name__)


def pin(index: int, settings: WorkerSettings) -> tuple[int, ...]:
    """Put this process on its share of the partition; empty when it stays unpinned."""
    cores = share_of(index, settings.workers, settings.partition)
    if cores:
        os.sched_setaffinity(0, cores)
    return cores


def open_child(index: int, settings: WorkerSettings, offers: Offers) -> Driver:
    """Everything a child needs, made in the child: nothing here may cross a fork.

    Raises:
        ConfigurationError: a model cannot be loaded or the pool cannot be opened.
    """
    cores = pin(index, settings)
    processors, broken = load_all(settings, WorkerStart(index, cores))
    own = len(cores) or len(os.sched_getaffinity(0))
    limit_threads(max(one.processor.cpu_threads(own) for one in processors.values()))
    owner = Owner(settings.folder, "worker")
    redis = connect(settings.redis_url, f"worker-{settings.node}-{index}")
    keys = Keys(settings.prefix)
    pool = Pool(settings.pool_path, owner.id, writable=True, installation=settings.installation)
    driver = Driver(
        node=settings.node,
        secret=settings.secret,
        redis=redis,
        moves=Moves(keys),
        pool=pool,
        store=open_store(settings.media, redis, keys),
        processors=processors,
        life=owner,
        cache=_open_cache(pool, settings.cache_budget),
        soft_limit_s=settings.soft_limit_s,
        item_limits=settings.item_limits,
        video_salvage=settings.video_salvage,
    )
    stop_unwanted = partial(driver.stop_if_unwanted, connect(settings.redis_url, f"unwanted-{settings.node}-{index}"))
    signal.signal(SIGNAL, lambda *_: stop_unwanted())
    offers.report(processors.values(), broken)
    log.info("child ready", extra={"child": index, "cores": ",".join(map(str, cores)) or "any", "owner": owner.id})
    return driver


def _open_cache(pool: Pool, budget_bytes: int) -> FeatureCache | None:
    cache = FeatureCache(pool)
    cache.set_budget(budget_bytes)
    if not budget_bytes:
        cache.clear()  # what an earlier run has kept, or pinned, is not to be kept for ever
        return None
    return cache


_ALONE = WorkerStart(0, ())


def load_all(
    settings: WorkerSettings, start: WorkerStart = _ALONE
) -> tuple[dict[str, LoadedProcessor], dict[str, str]]:
    """Every model's processor by the model's name, and why there is none for a model whose package is broken.

    Raises:
        ConfigurationError: the operator's mistake; or no package works at all.
    """
    loaded: dict[str, LoadedProcessor] = {}
    broken: dict[str, str] = {}
    for model in settings.sources:
        try:
            one = load_processor(model, settings.allowed_packages)
            _start(one, start)
            loaded[model.name] = _bounded(one, settings.max_prompt_tokens)
        except BrokenPackageError as error:
            cause = None if isinstance(error.__cause__, ForebayError) else error.__cause__
            log.error("model not served", extra={"model": model.name, "reason": str(error)}, exc_info=cause)
            broken[model.name] = str(error)
    if not loaded:
        raise ConfigurationError("; ".join(broken.values()))
    return loaded, broken


def _start(one: LoadedProcessor, start: WorkerStart) -> None:
    try:
        one.processor.start_worker(start)
    except (Exception, SystemExit) as error:  # a guest's hook may raise anything
        what = f"{type(error).__name__}: {error}"
        raise BrokenPackageError(f"model {one.name!r}: its processor cannot start in a child: {what}") from error


def _bounded(one: LoadedProcessor, max_tokens: int) -> LoadedProcessor:
    """The same, with no longer prompts than the deployment wants; 0 for no limit of its own."""
    own = one.capabilities.context_tokens
    limits = [limit for limit in (own, max_tokens) if limit]
    return replace(one, capabilities=replace(one.capabilities, context_tokens=min(limits, default=None)))
