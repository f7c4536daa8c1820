"""The nemesis: from a seed, it kills, stops, cuts, delays and fills, and writes down what it did."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from handoff.pool import Owner, Pool
from tests.chaos.plain import PlainSite
from tests.chaos.site import Site, strike

_PAUSE_S = (1.0, 4.0)


@dataclass
class Nemesis:
    """Strikes one thing after another."""

    site: Site | PlainSite
    chance: random.Random
    strikes: Sequence[str] = ()
    """Which of them; all of them when none is named."""
    done: Counter[str] = field(default_factory=Counter)

    def rage(self, seconds: float) -> None:
        """Strike until the time is over; what it held still is let go."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            name = self.chance.choice(self.strikes or STRIKES)
            if getattr(self, f"_{name}")():
                self.done[name.replace("_", " ")] += 1
            time.sleep(self.chance.uniform(*_PAUSE_S))

    def _pid(self, part: str, *, child: bool = False) -> int | None:
        pids = self.site.pids(part)
        chosen = pids[1:] if child else pids[:1]
        return self.chance.choice(chosen) if chosen else None

    def _kill(self, part: str, *, child: bool = False) -> bool:
        pid = self._pid(part, child=child)
        return pid is not None and strike(pid, signal.SIGKILL)

    def _halt(self, part: str, *, child: bool = False) -> bool:
        pid = self._pid(part, child=child)
        if pid is None or not strike(pid, signal.SIGSTOP):
            return False
        time.sleep(self.chance.uniform(0.5, 4.0))
        strike(pid, signal.SIGCONT)
        return True

    def _kill_api(self) -> bool:
        return self._kill("api")

    def _kill_worker(self) -> bool:
        return self._kill("worker")

    def _kill_child(self) -> bool:
        return self._kill("worker", child=True)

    def _kill_scheduler(self) -> bool:
        return self._kill("scheduler")

    def _kill_redis(self) -> bool:
        self.site.server.kill_and_restart()
        return True

    def _stop_api(self) -> bool:
        return self._halt("api")

    def _stop_worker(self) -> bool:
        return self._halt("worker")

    def _stop_child(self) -> bool:
        return self._halt("worker", child=True)

    def _stop_scheduler(self) -> bool:
        return self._halt("scheduler")

    def _stop_redis(self) -> bool:
        pid = self.site.server.process.pid
        strike(pid, signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.5, 3.0))
        return strike(pid, signal.SIGCONT)

    def _cut_connections(self) -> bool:
        for _ in range(self.chance.randint(1, 5)):
            self.site.proxy.cut()
            time.sleep(0.05)
        return True

    def _delay_replies(self) -> bool:
        self.site.proxy.delay_s = self.chance.uniform(0.02, 0.3)
        time.sleep(self.chance.uniform(1.0, 3.0))
        self.site.proxy.delay_s = 0.0
        return True

    def _fill_pool(self) -> bool:
        """Take all room that there is, as a neighbour who holds it for a while; or one that dies with it."""
        assert isinstance(self.site, Site)
        path = self.site.pool
        owner = Owner(path.parent, "chaos")
        pool = Pool(path, owner.id, writable=True, prefault=False)
        size = pool.data_bytes
        while size > 4096:
            if pool.allocate(size, "chaos", 1) is None:
                size //= 2
        time.sleep(self.chance.uniform(0.5, 3.0))
        if self.chance.random() < 0.5:
            pool.abandon_all()
        pool.close()
        owner.close()
        return True


STRIKES = sorted(
    name.removeprefix("_")
    for name in vars(Nemesis)
    if name.startswith(("_kill_", "_stop_", "_cut_", "_delay_", "_fill_"))
)
