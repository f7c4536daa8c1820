"""What a tenant has asked for lately, newest first, in pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from forebay.states import State
from handoff.connection import AsyncClient, redis_failures
from handoff.keys import Keys

_AT_ONCE = 200
_MOST_LOOKED_AT = 2_000  # by one page, however few of them are wanted
_FIELDS = ("state", "model", "kind", "attempt", "node", "t_accepted", "deadline")


@dataclass(frozen=True, slots=True)
class Brief:
    """A request in a list. ``rid`` is the tier's name of it; times are Redis' clock, in ms."""

    rid: str
    state: State
    model: str
    kind: str
    attempt: int
    node: str
    accepted_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The last request that was looked at: when it was accepted, and its name."""

    at_ms: int
    rid: str


async def page(
    client: AsyncClient,
    keys: Keys,
    tenant: str,
    wanted: Callable[[Brief], bool],
    limit: int,
    after: Mark | None = None,
) -> tuple[list[Brief], Mark | None]:
    """Up to ``limit`` requests of a tenant that are wanted, older than the mark; and the next mark, if there are more.

    Raises:
        Failed: Redis cannot be reached.
    """
    found: list[Brief] = []
    looked_at, last = 0, after
    while looked_at < _MOST_LOOKED_AT:
        rows = await _rows(client, keys.asked(tenant), looked_at, after)
        looked_at += len(rows)
        # What has come in the meantime shifts the others: some are seen again.
        older = [row for row in rows if last is None or (row.at_ms, row.rid) < (last.at_ms, last.rid)]
        last = older[-1] if older else last
        for mark, brief in zip(older, await _briefs(client, keys, older), strict=True):
            if brief is not None and wanted(brief):
                found.append(brief)
                if len(found) == limit:
                    return found, mark
        if len(rows) < _AT_ONCE:
            return found, None
    return found, last


async def _rows(client: AsyncClient, asked: str, offset: int, after: Mark | None) -> list[Mark]:
    newest = "+inf" if after is None else after.at_ms
    with redis_failures():
        reply: Any = await client.zrevrangebyscore(asked, newest, "-inf", offset, _AT_ONCE, withscores=True)
    return [Mark(int(score), rid.decode()) for rid, score in reply]


async def _briefs(client: AsyncClient, keys: Keys, marks: list[Mark]) -> list[Brief | None]:
    if not marks:
        return []
    with redis_failures():
        pipe = client.pipeline(transaction=False)
        for mark in marks:
            pipe.hmget(keys.record(mark.rid), _FIELDS)
        replies: list[Any] = await pipe.execute()
    return [_brief(mark.rid, reply) for mark, reply in zip(marks, replies, strict=True)]


def _brief(rid: str, reply: list[bytes | None]) -> Brief | None:
    if reply[0] is None:
        return None  # its time is over
    state, model, kind, attempt, node, accepted, deadline = (part.decode() if part else "" for part in reply)
    return Brief(rid, State(state), model, kind, int(attempt), node, int(accepted), int(deadline))
