"""``make chaos-compare``: the same strikes on plain Celery, on Celery made reliable by its settings, and on Forebay."""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from forebay.states import State
from handoff.record import read
from tests.chaos.gallery import hang
from tests.chaos.load import Load
from tests.chaos.nemesis import Nemesis
from tests.chaos.plain import plain
from tests.chaos.site import staged

STRIKES = ("kill_worker", "kill_child", "stop_worker", "kill_redis", "cut_connections", "delay_replies")
_TASKS_A_S = 8.0
_QUIET_S, _PATIENCE_S = 45.0, 180.0  # above the visibility timeout of the reliable settings


@dataclass(frozen=True)
class Row:
    """What became of the tasks that a sender was told were taken."""

    name: str
    strikes: int
    sent: int
    lost: int
    twice: int


def on_celery(seconds: float, seed: int, *, reliable: bool) -> Row:
    """Tasks of plain Celery; one is lost when it has not run long after the storm."""
    with tempfile.TemporaryDirectory() as folder, plain(Path(folder), reliable=reliable) as site:
        sent: list[int] = []
        sender = threading.Thread(target=lambda: sent.extend(site.publish(seconds, int(seconds * _TASKS_A_S))))
        nemesis = Nemesis(site, random.Random(seed), strikes=STRIKES)
        site.wait_until_it_works()
        sender.start()
        nemesis.rage(seconds)
        sender.join()
        done, since, began = site.done(), time.monotonic(), time.monotonic()
        while time.monotonic() - since < _QUIET_S and time.monotonic() - began < _PATIENCE_S and set(sent) - set(done):
            time.sleep(1.0)
            now = site.done()
            if now != done:
                done, since = now, time.monotonic()
    name = "Celery, the usual reliable settings" if reliable else "Celery, its defaults"
    lost = len(set(sent) - set(done))
    return Row(name, sum(nemesis.done.values()), len(sent), lost, sum(times > 1 for times in done.values()))


def on_forebay(seconds: float, seed: int) -> Row:
    """Requests of Forebay; one is lost when its record has no end, and twice when its log has two."""
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as site:
        pictures = hang(site.url)
        nemesis = Nemesis(site, random.Random(seed), strikes=STRIKES)
        with _patiently(), Load(site.url, pictures, seed) as load:
            nemesis.rage(seconds)
        sent = [asked.rid for asked in load.history if asked.told == "accepted"]
        give_up_at = time.monotonic() + _PATIENCE_S
        while site.redis.zcard(site.keys.due) and time.monotonic() < give_up_at:
            time.sleep(0.5)
        records = [read(site.redis, site.keys, rid) for rid in sent]
        ends = [sum(fields[b"event"] == b"end" for _, fields in site.redis.xrange(site.keys.log(rid))) for rid in sent]
    lost = sum(record is None or not record.state.is_end for record in records)
    done = sum(record is not None and record.state is State.DONE for record in records)
    name = f"Forebay ({done} done, {len(sent) - done - lost} ended otherwise)"
    return Row(name, sum(nemesis.done.values()), len(sent), lost, sum(count > 1 for count in ends))


@contextmanager
def _patiently() -> Iterator[None]:
    """Requests that are asked for later, with as much time as Celery's tasks have."""
    with patch("tests.chaos.load.KINDS", ["async"]), patch("tests.chaos.load.TIMEOUT_S", _PATIENCE_S):
        yield


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = [on_celery(given.seconds, given.seed, reliable=reliable) for reliable in (False, True)]
    rows.append(on_forebay(given.seconds, given.seed))
    table = Table("tier", "strikes", "taken", "lost", "ran or ended twice", title="The same nemesis")
    for row in rows:
        table.add_row(row.name, *(f"{number:,}" for number in (row.strikes, row.sent, row.lost, row.twice)))
    Console().print(table)


if __name__ == "__main__":
    main()
