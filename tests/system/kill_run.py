"""Everybody is killed, over and over, and nothing is lost, leaked or mixed up: ``make kill-run``.

Three writers, two readers and two janitors work on one pool that is too small for them; one of them is killed every
few hundred milliseconds, and now and then one is stopped for a while. Every ten seconds all are killed, a janitor makes
one round, and the law (``tests/support/kill/law.py``) is checked. It ends at the first thing that is wrong.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from handoff.connection import Client, connect
from handoff.pool import FeatureCache, Pool
from tests.support.kill.callers import Callers
from tests.support.kill.law import BrokenLawError, inspected
from tests.support.kill.mortals import COMPLAINTS, Mortal, Site, log_to
from tests.support.valkey import running_server

POOL_BYTES, CACHE_BYTES = 20 << 20, 6 << 20
CAST = ["writer"] * 3 + ["reader"] * 2 + ["janitor"] * 2

_MOST_LIVE = 40
_ASK_EVERY_S = 0.03
_CHECK_EVERY_S, _DRAIN_EVERY = 10.0, 6  # every sixth time it is let drain first
_OVERDUE_AFTER_S = 15.0  # a janitor that is killed between looking and acting looks again after five seconds
_DRAIN_WITHIN_S = 100.0  # above the longest deadline
_TURN_S = 0.005
_LAST_LINES = 80  # of the log, when something is wrong
_SHOWN = ("hits", "misses", "attaches", "evictions", "waits", "waited_ms", "late_results", "orphans")


@dataclass
class KillRun:
    """The run: who takes part, and what has happened."""

    site: Site
    redis: Client
    callers: Callers
    cast: list[Mortal]
    done: Counter[str] = field(default_factory=Counter)
    _ask_at: float = 0.0
    _kill_at: float = 0.0

    def go(self, seconds: float) -> None:
        """The whole of it.

        Raises:
            BrokenLawError: the first thing that is wrong.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._for_a_while(min(until, time.monotonic() + _CHECK_EVERY_S))
            self.done["checks"] += 1
            if self.done["checks"] % _DRAIN_EVERY:
                self._black_out()
            else:
                self._drain()
        self._drain()
        with inspected(self.site, self.redis) as inspection:
            inspection.check_empty()

    def _for_a_while(self, until: float) -> None:
        while time.monotonic() < until:
            self._revive()
            self._ask()
            self._strike()
            self._look()
            time.sleep(_TURN_S)

    def _ask(self) -> None:
        if time.monotonic() > self._ask_at and len(self.callers.live) < _MOST_LIVE:
            self._ask_at = time.monotonic() + random.uniform(0, 2 * _ASK_EVERY_S)
            self.callers.ask()
            if random.random() < 0.05:
                self.callers.change_a_mind()

    def _strike(self) -> None:
        now = time.monotonic()
        if now < self._kill_at:
            return
        self._kill_at = now + random.uniform(0.05, 0.5)
        victim = random.choice(self.cast)
        if not victim.lives:
            return
        if random.random() < 0.1 and not victim.is_stopped:
            victim.stop()
            victim.wakes_at = now + random.uniform(0.05, 2.0)  # a lease is ten seconds
            self.done[f"{victim.kind}s stopped"] += 1
        else:
            self._kill(victim)

    def _kill(self, victim: Mortal) -> None:
        victim.kill()
        victim.wakes_at = time.monotonic() + random.uniform(0, 0.3)
        self.done[f"{victim.kind}s killed"] += 1

    def _revive(self, *, now: bool = False) -> None:
        for one in self.cast:
            if now or time.monotonic() > one.wakes_at:
                if one.is_stopped:
                    one.go_on()
                if not one.lives:
                    one.be_born()

    def _look(self) -> None:
        """What everybody saw by now."""
        self.callers.hear()
        complaints = [one.decode() for one in self.redis.lrange(COMPLAINTS, 0, -1)]
        wrong = (
            self.callers.wrong + complaints + [f"{rid} has no end" for rid in self.callers.overdue(_OVERDUE_AFTER_S)]
        )
        wrong += [f"a {one.kind} has ended" for one in self.cast if one.has_ended()]
        if wrong:
            raise BrokenLawError("\n".join(wrong))

    def _black_out(self) -> None:
        """All are dead at once; whatever they held is found by one round of a janitor."""
        self.end()
        with inspected(self.site, self.redis) as inspection:
            inspection.check()
        self._revive(now=True)

    def _drain(self) -> None:
        """Nobody asks and nobody is killed, until everything is done."""
        give_up_at = time.monotonic() + _DRAIN_WITHIN_S
        self._revive(now=True)
        while self.callers.live:
            if time.monotonic() > give_up_at:
                raise BrokenLawError(f"these have not ended: {sorted(self.callers.live)}")
            self._look()
            time.sleep(_TURN_S)
        self._await_everybody()
        with inspected(self.site, self.redis) as inspection:
            inspection.check()

    def _await_everybody(self) -> None:
        """Whoever was born last has a name by now."""
        give_up_at = time.monotonic() + _DRAIN_WITHIN_S
        while len(list(self.site.folder.glob("owner-*"))) < len(self.cast):
            if time.monotonic() > give_up_at:
                raise BrokenLawError("not everybody has come up")
            time.sleep(_TURN_S)

    def end(self) -> None:
        """Kill all that live."""
        for one in self.cast:
            if one.lives:
                self._kill(one)

    def totals(self) -> str:
        """One line of what has happened."""
        pool = Pool(self.site.folder / "pool", "totals", writable=False)
        counted = pool.stats().counters
        pool.close()
        of_the_pool = {name.replace("_", " "): counted[name] for name in _SHOWN}
        parts = [self.done, {"accepted": self.callers.accepted}, self.callers.ends, of_the_pool]
        return "; ".join(", ".join(f"{count} {name}" for name, count in sorted(part.items())) for part in parts)


@contextmanager
def prepared(seed: int) -> Iterator[KillRun]:
    """A server, a node and its cast, for the time of the block; afterwards nothing of it is left."""
    random.seed(seed)
    folder = Path(tempfile.mkdtemp(prefix="forebay-kill-", dir="/dev/shm"))
    disk = Path(tempfile.mkdtemp(prefix="forebay-kill-"))
    try:
        with running_server(disk) as url:
            site = Site(folder, disk, url)
            log_to(site, "run")
            Pool.create(folder / "pool", POOL_BYTES)
            pool = Pool(folder / "pool", "preparation", writable=False)
            FeatureCache(pool).set_budget(CACHE_BYTES)
            pool.close()
            redis = connect(url, "run")
            run = KillRun(site, redis, Callers(redis, site.store), [Mortal(kind, site) for kind in CAST])
            try:
                yield run
            finally:
                run.end()
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(disk)


def main() -> int:
    """Run it; 1 when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="how long requests are sent; it drains afterwards")
    parser.add_argument("--seed", type=int, default=0, help="of what is asked and whom it hits")
    given = parser.parse_args()
    with prepared(given.seed) as run:
        try:
            run.go(given.seconds)
        except BrokenLawError as error:
            print(f"broken after {run.totals()}\n{error}", file=sys.stderr)
            print("".join(run.site.log.read_text().splitlines(keepends=True)[-_LAST_LINES:]), file=sys.stderr)
            return 1
        print(run.totals())
    return 0


if __name__ == "__main__":
    sys.exit(main())
