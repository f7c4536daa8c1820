"""What must hold once the storm is over: one end a request, the right answer, none too late, nothing held."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import redis

from forebay.states import State
from handoff.keys import LANES
from handoff.record import Record, read
from tests.chaos.gallery import Picture
from tests.chaos.load import Asked
from tests.chaos.site import Site

GRACE_MS = 20_000  # after a deadline: a janitor may have been dead, and its successor has to come up
_CALM_WITHIN_S = 90.0
_NODE = "local"


@dataclass
class Verdict:
    """What was found. ``faults`` must be empty."""

    requests: int = 0
    told: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in FAULTS})

    @property
    def is_good(self) -> bool:
        return not any(self.faults.values())

    def found(self) -> str:
        """How many faults of each kind, in one line."""
        return ", ".join(f"{name} {len(lines)}" for name, lines in self.faults.items())


FAULTS = ("lost", "duplicated", "wrong", "late", "held after")


@dataclass
class Judge:
    """Judges in several sittings: a record is kept for ten minutes after its end, and a storm may last an hour."""

    site: Site
    pictures: Sequence[Picture]
    verdict: Verdict = field(default_factory=Verdict)
    _judged: set[str] = field(default_factory=set)

    def sit(self, history: Sequence[Asked], *, asked_before: float = float("inf")) -> None:
        """Hold what was asked before a time (``time.monotonic()``), and not judged yet, against what Redis says."""
        _until(lambda: _answers(self.site))
        for asked in history:
            if asked.at < asked_before and asked.rid not in self._judged:
                self._judged.add(asked.rid)
                self.verdict.requests += 1
                self.verdict.told[asked.told] += 1
                if asked.wrong:
                    self.verdict.faults["wrong"].append(f"{asked.rid}: {asked.wrong}")
                _judge_one(self.site, asked, self.pictures[asked.picture], self.verdict)

    def conclude(self, history: Sequence[Asked]) -> Verdict:
        """The rest, and what is held, once all is calm."""
        _until(lambda: self.site.redis.zcard(self.site.keys.due) == 0)
        self.sit(history)
        _until(lambda: not _held(self.site))
        self.verdict.faults["held after"] += _held(self.site)
        return self.verdict


def judge(site: Site, history: Sequence[Asked], pictures: Sequence[Picture]) -> Verdict:
    """Hold a history against what Redis and the pool say, once all is calm."""
    return Judge(site, pictures).conclude(history)


def _answers(site: Site) -> bool:
    with suppress(redis.RedisError):
        return bool(site.redis.ping())
    return False


def _judge_one(site: Site, asked: Asked, picture: Picture, verdict: Verdict) -> None:
    record = read(site.redis, site.keys, asked.rid)
    if record is None:
        if asked.told in ("accepted", "answered"):
            verdict.faults["lost"].append(f"{asked.rid}: no record")
        return
    verdict.ends[record.state] += 1
    if not record.state.is_end:
        verdict.faults["lost"].append(f"{asked.rid}: still {record.state}")
        return
    if asked.told == "answered" and record.state is not State.DONE:
        verdict.faults["duplicated"].append(f"{asked.rid}: answered, and {record.state}")
    if record.times_ms["end"] > record.deadline_ms + GRACE_MS:
        verdict.faults["late"].append(
            f"{asked.rid}: {record.times_ms['end'] - record.deadline_ms} ms after its deadline"
        )
    if record.has_log:
        _judge_log(site, asked, verdict)
    _judge_result(record, asked, picture, verdict)


def _judge_log(site: Site, asked: Asked, verdict: Verdict) -> None:
    entries = site.redis.xrange(site.keys.log(asked.rid))
    ends = sum(fields[b"event"] == b"end" for _, fields in entries)
    if ends != 1:
        verdict.faults["duplicated"].append(f"{asked.rid}: {ends} ends in its log")


def _judge_result(record: Record, asked: Asked, picture: Picture, verdict: Verdict) -> None:
    """Of those who came back for it: the record has the answer."""
    if record.state is not State.DONE or record.result is None:
        return
    if asked.kind == "bad":
        verdict.faults["wrong"].append(f"{asked.rid}: a bad request is done")
    elif record.kind == "generate" and not picture.is_label(record.result["outputs"][0]["meta"]):
        verdict.faults["wrong"].append(f"{asked.rid}: the label is another picture's")


def _held(site: Site) -> list[str]:
    """Whatever is still somebody's, though no request is live."""
    keys, found = site.keys, []
    with site.looking_at_pool() as pool:
        found += [f"a block of {info.rid}, {info.state.name}, of {info.owner}" for info in pool.blocks()]
        found += [f"a waiter: {waiter.owner}" for waiter in pool.waiting()]
    live, size = site.redis.hmget(keys.tenant(""), "live", "bytes")
    if (int(live or 0), int(size or 0)) != (0, 0):
        found.append(f"on the account: {live} requests, {size} bytes")
    for pattern in ("line:*", "parked:*", "leases:*", "purge:*", "taken:*"):
        found += [
            f"{key.decode()}: {site.redis.type(key).decode()}"
            for key in site.redis.scan_iter(f"{keys.prefix}{pattern}")
        ]
    for lane in LANES:
        for key in site.redis.scan_iter(f"{keys.prefix}mm.*.{lane}"):
            if site.redis.llen(key):
                found.append(f"{site.redis.llen(key)} messages on {key.decode()}")
    return found


def _until(holds: Callable[[], object]) -> None:
    """Wait for calm, not for ever."""
    give_up_at = time.monotonic() + _CALM_WITHIN_S
    while not holds() and time.monotonic() < give_up_at:
        time.sleep(0.25)
