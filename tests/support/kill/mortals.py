"""Those who are killed: a writer, a reader and a janitor, each a process that does what the real one does."""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgpack

from handoff.connection import Client, connect
from handoff.keys import Keys
from handoff.media import Spool
from handoff.moves import Moves
from handoff.pool import FeatureCache, Owner, Pool
from scheduler import SchedulerSettings, open_intake
from scheduler.loop import Scheduler
from tests.support.kill.gallery import Doubting, Wide, toy_model
from tests.support.toys import loaded
from tests.support.ways import MODEL, NODE
from workers.driver import Driver
from workers.janitor import Janitor

SECRET = b"0123456789abcdef"
DEPLOYMENT = "test"
KEYS = Keys(f"{DEPLOYMENT}:")
COMPLAINTS = f"{DEPLOYMENT}:complaints"
"""The list in Redis of what somebody saw that must not be."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Site:
    """Where it all happens."""

    folder: Path
    disk: Path
    redis_url: str

    @property
    def log(self) -> Path:
        return self.disk / "log"

    @property
    def store(self) -> Spool:
        return Spool(self.disk / "media")


def log_to(site: Site, who: str) -> None:
    """What this process says goes into the run's log."""
    form = f"%(asctime)s {who} %(process)d %(message)s %(rid)s %(what)s %(which)s %(why)s"
    handler = logging.FileHandler(site.log)
    handler.setFormatter(logging.Formatter(form, defaults=dict.fromkeys(("rid", "what", "which", "why"), "")))
    logging.basicConfig(level=logging.WARNING, force=True, handlers=[handler])


def complain(redis: Client, what: str) -> None:
    """Tell the run of something that must not be."""
    redis.rpush(COMPLAINTS, what)


def write(site: Site) -> None:
    """Take messages off the queue and do them, as a worker's child; one in four has no cache."""
    redis, life = connect(site.redis_url, "writer"), Owner(site.folder, "worker")
    pool = Pool(site.folder / "pool", life.id, writable=True)
    driver = Driver(
        node=NODE,
        secret=SECRET,
        redis=redis,
        moves=Moves(KEYS),
        pool=pool,
        store=site.store,
        processors={MODEL: loaded(Wide(toy_model()), MODEL)},
        life=life,
        cache=FeatureCache(pool) if random.random() < 0.75 else None,
    )
    while True:
        popped = redis.brpop([KEYS.queue(NODE, "text")], 1)
        if popped:
            [message], _, _ = msgpack.unpackb(base64.b64decode(json.loads(popped[1])["body"]))
            driver.run(message)


def read(site: Site) -> None:
    """Run a scheduler's loop with an engine that looks at every byte."""
    settings = SchedulerSettings(
        secret=SECRET,
        redis_url=site.redis_url,
        deployment=DEPLOYMENT,
        node=NODE,
        run_dir=site.folder,
        model=toy_model(),
    )
    with open_intake(settings) as intake:
        Scheduler(intake, Doubting(partial(complain, intake.redis)), SECRET, drain_s=5.0).run()


def sweep(site: Site) -> None:
    """A janitor, three times a second."""
    redis, life = connect(site.redis_url, "janitor"), Owner(site.folder, "janitor")
    janitor = janitor_of(site, redis, life, Pool(site.folder / "pool", life.id, writable=False))
    while True:
        janitor.tick()
        time.sleep(random.uniform(0.25, 0.45))


def janitor_of(site: Site, redis: Client, life: Owner, pool: Pool) -> Janitor:
    return Janitor(
        me=life.id,
        node=NODE,
        folder=site.folder,
        secret=SECRET,
        redis=redis,
        moves=Moves(KEYS),
        pool=pool,
        store=site.store,
        models=[MODEL],
    )


BODIES: dict[str, Callable[[Site], None]] = {"writer": write, "reader": read, "janitor": sweep}


class Mortal:
    """One of them, and whoever takes its place when it has been killed."""

    def __init__(self, kind: str, site: Site) -> None:
        self.kind = kind
        self._site = site
        self._pid = 0
        self.is_stopped = False
        self.wakes_at = 0.0
        """When it goes on, if it is stopped; when the next one is born, if it is dead."""

    @property
    def lives(self) -> bool:
        return bool(self._pid)

    def be_born(self) -> None:
        seed = random.getrandbits(64)
        self._pid = os.fork()
        if not self._pid:
            _live(self.kind, self._site, seed)

    def kill(self) -> None:
        """SIGKILL, also of one that is stopped."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid, self.is_stopped = 0, False

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self) -> None:
        os.kill(self._pid, signal.SIGCONT)
        self.is_stopped = False

    def has_ended(self) -> bool:
        """Whether it has ended by itself, which none ever should."""
        return self.lives and os.waitpid(self._pid, os.WNOHANG)[0] == self._pid


def _live(kind: str, site: Site, seed: int) -> NoReturn:
    """Everything that a child does. Nothing of its parent's is used, and nothing is cleaned up."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # none outlives the run
        random.seed(seed)
        log_to(site, kind)
        BODIES[kind](site)
    except BaseException:
        complain(connect(site.redis_url, "complaint"), f"a {kind} died of itself:\n{traceback.format_exc()}")
    finally:
        os._exit(1)
