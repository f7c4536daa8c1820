"""``forebay pool check``: a round of the janitor that does nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from forebay.errors import ConfigurationError
from forebay.ticket import Ticket
from handoff.connection import Client, connect, redis_failures, require, texts
from handoff.keys import LANES, Keys
from handoff.media import RedisStore
from handoff.moves import Moves
from handoff.pool import Pool
from handoff.record import Record
from handoff.scripts import perform
from handoff.slot import Slot
from workers.about import About
from workers.janitor import Janitor
from workers.reconcile import Verdict
from workers.sweep import Finding

_MOST_REQUESTS = 1000


@dataclass(frozen=True, slots=True)
class Found:
    """What the janitor would do now.

    Attributes:
        findings: what it would remove.
        judgements: requests that it would end or queue again.
        lapsed: requests whose scheduler's lease has ended, and that it would park again.
        worn: the same, but for the last time: it would abandon them.
        purged: requests that ended while they waited, and whose blocks it would free.
        in_hand: workers that have died with messages in hand, and how many; it would put them back.
        asked: how many live requests were looked at, of how many.
    """

    findings: Sequence[Finding]
    judgements: Sequence[tuple[Record, Verdict]]
    lapsed: Sequence[str]
    worn: Sequence[str]
    purged: Sequence[str]
    in_hand: Sequence[tuple[str, int]]
    asked: tuple[int, int]

    @property
    def is_anything(self) -> bool:
        return bool(self.findings or self.judgements or self.lapsed or self.worn or self.purged or self.in_hand)


def look(pool: Pool, folder: Path) -> Found:
    """Look as the node's janitor does, and leave everything as it is.

    Raises:
        ConfigurationError: no worker has left its note in the folder, or its Redis does not answer.
    """
    about = _about(folder)
    require(about.redis_url)
    redis = connect(about.redis_url, "check")
    try:
        return _look(_janitor(about, pool, folder, redis), redis)
    finally:
        redis.close()


def _about(folder: Path) -> About:
    about = About.read(folder)
    if about is None:
        raise ConfigurationError(f"{folder}: no worker has left a note there of the Redis that it uses")
    given = os.environ.get("REDIS_URL")
    if given is None and about.lacks_password:
        raise ConfigurationError(f"{about.redis_url} wants a password, which is not in {folder}: set REDIS_URL")
    return replace(about, redis_url=given or about.redis_url)


def _janitor(about: About, pool: Pool, folder: Path, redis: Client) -> Janitor:
    keys = Keys(f"{about.deployment}:")
    return Janitor(
        me="check",
        node=about.node,
        folder=folder,
        secret=b"",  # for queuing again, which is not done here
        redis=redis,
        moves=Moves(keys),
        pool=pool,
        store=RedisStore(redis, keys),
        models=about.models,
    )


def _look(janitor: Janitor, redis: Client) -> Found:
    due = janitor.keys.due
    with redis_failures():
        seconds, micros = redis.time()
        live: Any = redis.zcard(due)
        rids = texts(redis.zrange(due, 0, _MOST_REQUESTS - 1))
        now_ms = seconds * 1000 + micros // 1000
        leases = [janitor.keys.leases(janitor.node, model) for model in janitor.models]
        lapsed = [rid for name in leases for rid in texts(redis.zrangebyscore(name, "-inf", now_ms))]
        worn = [rid for model in janitor.models for rid in perform(redis, janitor.moves.worn(janitor.node, model))]
        lapsed = [rid for rid in lapsed if rid not in worn]
        ended: Any = redis.lrange(janitor.keys.purge(janitor.node), 0, _MOST_REQUESTS - 1)
        in_hand = [(life, count) for life in janitor.dead_takers() if (count := _in_hand(janitor, redis, life))]
    judged = janitor.judgements(now_ms, rids)
    moving = [(found, verdict) for found, verdict in judged if verdict is not Verdict.LEAVE]
    purged = [Ticket.unpack(packed).rid for packed in ended]
    return Found(list(janitor.sweep.findings()), moving, lapsed, worn, purged, in_hand, (len(rids), int(live)))


def _in_hand(janitor: Janitor, redis: Client, life: str) -> int:
    slot = Slot(janitor.keys, janitor.node, life)
    counts: Any = [redis.llen(slot.list_of(lane)) for lane in LANES]
    return sum(counts)


def table(found: Found) -> Group:
    """What was found, for the terminal."""
    looked, live = found.asked
    lines: list[Text | Table] = [Text(f"{looked} of {live} live requests looked at")]
    if not found.is_anything:
        return Group(*lines, Text("nothing to remove, nothing to replay"))
    shown = Table("would", "what", Column("which", overflow="fold"), Column("why", overflow="fold"), "MiB")
    for finding in found.findings:
        shown.add_row("remove", finding.what, finding.name, finding.why, f"{finding.size_bytes / (1 << 20):.1f}")
    for record, verdict in found.judgements:
        shown.add_row(verdict.value, "request", record.rid, f"{record.state}, attempt {record.attempt}", "")
    for rid in found.lapsed:
        shown.add_row("park again", "request", rid, "its scheduler's lease has ended", "")
    for rid in found.worn:
        shown.add_row("abandon", "request", rid, "every attempt has lost its worker or its scheduler", "")
    for rid in found.purged:
        shown.add_row("free", "blocks", rid, "it ended while it waited", "")
    for life, count in found.in_hand:
        shown.add_row("put back", "messages", f"{count} in the hand of {life}", "it has died", "")
    return Group(*lines, shown)
