"""The worker's parent process: Celery with one task, a pool of pinned children, and the janitor between messages.

start → ready → run → drain → stopped. The first signal drains (Celery's warm shutdown), the second ends (``ending``).
"""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import asdict
from typing import Any

from billiard.process import current_process
from celery import Celery, bootsteps, signals
from celery.exceptions import SecurityWarning
from celery.worker import state as celery_state

from forebay.errors import ForebayError
from forebay.notify import notify
from handoff import nodes
from handoff.connection import connect, require
from handoff.keys import LANES, Keys, queue_name
from handoff.media import open_store
from handoff.moves import Moves
from handoff.pool import Owner, Pool
from handoff.queue import TASK, QueueWorker, celery_settings, make_app
from workers.about import About
from workers.casualties import Casualties, WatchedRequest
from workers.child import open_child
from workers.cores import check_partition, one_thread_each
from workers.driver import Driver
from workers.ending import EXIT_FAILURE, Ending
from workers.janitor import Janitor
from workers.memory import measure_children_so
from workers.offers import Offers
from workers.place import prepare_node
from workers.preload import preload
from workers.promises import check_celery, check_server
from workers.settings import WorkerSettings
from workers.unwanted import ROUND_S, Watch

log = logging.getLogger(__name__)


def run_worker(settings: WorkerSettings) -> int:
    """Run until told to stop; the exit status."""
    # Celery warns of running as root because pickled tasks could run anything; ours are signed MessagePack.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    require(settings.redis_url)
    one_thread_each()
    preload(settings.sources)
    check_partition(settings.partition)
    prepare_node(settings)
    About.of(settings, tuple(model.name for model in settings.models)).write(settings.folder)
    offers = Offers(settings.folder, settings.node)
    offers.clear()
    life = Owner(settings.folder, "parent")
    try:
        return _run(settings, offers, life)
    finally:
        life.close()


def _run(settings: WorkerSettings, offers: Offers, life: Owner) -> int:
    """Run under a life whose end says that the messages in hand are nobody's."""
    queue_worker = QueueWorker(settings.node, life.id, settings.limits, settings.events)
    app = make_app(settings, queue_worker)
    check_celery(app, celery_settings(settings, queue_worker), settings.redis_url, settings.limits)
    _define_task(app, settings, offers, life)
    app.steps["consumer"].add(_upkeep_step(settings, offers, life))
    worker = app.Worker(
        hostname=f"{settings.node}@{settings.node}",
        concurrency=settings.workers,
        pool="prefork",
        optimization="fair",
        queues=[queue_name(settings.node, lane) for lane in LANES],
        loglevel=settings.log_level,
        task_events=settings.events,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    signals.worker_ready.connect(Ending(settings.grace_s).on_ready, weak=False)
    worker.start()
    failure = (offers.read() or {}).get("failure")
    if failure:
        notify(STATUS=failure)
        log.error("worker cannot start", extra={"reason": failure})
        return EXIT_FAILURE
    return int(worker.exitcode or 0)


def _define_task(app: Celery, settings: WorkerSettings, offers: Offers, life: Owner) -> None:
    """The one task, and what each child does before it can run it."""
    drivers: list[Driver] = []  # one, in each child

    def open_in_child(**_: Any) -> None:
        life.disown()  # a child that outlives its parent must not look like it
        measure_children_so()
        try:
            drivers[:] = [open_child(current_process().index, settings, offers)]
        except Exception as error:
            foreseen = isinstance(error, ForebayError)
            log.error("child cannot start", extra={"reason": str(error)}, exc_info=None if foreseen else error)
            offers.report_failure(f"{type(error).__name__}: {error}" if not foreseen else str(error))
            os._exit(EXIT_FAILURE)

    def preprocess(message: bytes) -> None:
        try:
            drivers[0].run(message)
        except (MemoryError, RecursionError):
            # Celery passes the first on to the parent, which would end. The next child takes the request up.
            log.critical("child ends: it has no room to work in", exc_info=True)
            os._exit(EXIT_FAILURE)

    signals.worker_process_init.connect(open_in_child, weak=False)
    made = type("Request", (WatchedRequest,), {"casualties": Casualties(settings)})
    app.task(preprocess, name=TASK, ignore_result=True, Request=made)


def _upkeep_step(settings: WorkerSettings, offers: Offers, life: Owner) -> type[bootsteps.StartStopStep]:
    """A step of Celery's consumer: it lives as long as the connection, and so does its timer."""
    upkeep = Upkeep(settings, offers, life)

    class UpkeepStep(bootsteps.StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def __init__(self, parent: Any, **kwargs: Any) -> None:
            super().__init__(parent, **kwargs)
            self._entries: list[Any] = []

        def start(self, parent: Any) -> None:
            repeated = parent.timer.call_repeatedly
            self._entries = [repeated(nodes.ANNOUNCE_S / 2, upkeep.tick), repeated(ROUND_S, upkeep.watch)]

        def stop(self, parent: Any) -> None:
            for entry in self._entries:
                entry.cancel()

        def shutdown(self, parent: Any) -> None:
            upkeep.close()

    return UpkeepStep


class Upkeep:
    """What the parent does between messages: watch its children's start, announce the node, sweep."""

    def __init__(self, settings: WorkerSettings, offers: Offers, life: Owner) -> None:
        self._settings = settings
        self._life = life
        self._offers = offers
        self._janitor: Janitor | None = None
        self._watching: Watch | None = None
        self._ready = False

    def tick(self) -> None:
        report = self._offers.read()
        if report is None:
            return
        if "failure" in report:
            log.error("worker cannot start", extra={"reason": report["failure"]})
            notify(STATUS=report["failure"])
            celery_state.should_terminate = EXIT_FAILURE
            return
        try:
            self._round(report)
        except ForebayError as error:  # Redis is away: the next round comes in a second
            log.warning("upkeep put off", extra={"reason": str(error)})

    def _round(self, report: dict[str, Any]) -> None:
        janitor = self._janitor or self._open()
        if not janitor.pool.is_in_place():
            log.error("the pool was removed, replaced or cut off", extra={"path": str(janitor.pool.path)})
            celery_state.should_terminate = EXIT_FAILURE  # started anew, everybody finds the one that is there then
            return
        stats = janitor.pool.stats()
        pool = asdict(stats)
        nodes.announce(janitor.redis, janitor.keys, self._settings.node, "workers", {**report, "pool": pool})
        janitor.tick()
        if not self._ready:
            self._ready = True
            log.info("worker ready", extra={"node": self._settings.node, "children": self._settings.workers})
            notify(READY=1)

    def _open(self) -> Janitor:
        """Made late: the children are forked by now, and inherit none of it."""
        settings = self._settings
        redis, keys = connect(settings.redis_url, f"janitor-{settings.node}"), Keys(settings.prefix)
        check_server(redis)
        me = self._life.id
        self._janitor = Janitor(
            me=me,
            node=settings.node,
            folder=settings.folder,
            secret=settings.secret,
            redis=redis,
            moves=Moves(keys),
            pool=Pool(settings.pool_path, me, writable=False, installation=settings.installation, prefault=False),
            store=open_store(settings.media, redis, keys),
            models=[model.name for model in settings.models],
        )
        return self._janitor

    def watch(self) -> None:
        """Stop what the children do for nobody."""
        janitor = self._janitor
        if janitor is None:  # nothing has begun yet, or the worker ends
            return
        if self._watching is None:
            self._watching = Watch(janitor.redis, janitor.keys, self._settings.secret)
        try:
            self._watching.look(tuple(celery_state.active_requests))
        except ForebayError as error:
            log.warning("children are not watched", extra={"reason": str(error)})

    def close(self) -> None:
        """Withdraw the node's workers. Safe to call twice."""
        janitor, self._janitor = self._janitor, None
        if janitor is None:
            return
        try:
            nodes.withdraw(janitor.redis, janitor.keys, self._settings.node, "workers")
        except ForebayError as error:
            log.warning("node not withdrawn", extra={"reason": str(error)})
