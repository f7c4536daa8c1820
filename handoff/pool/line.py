"""The line of those who wait for room: first come, first served, and only the living count."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handoff.pool.table import Number, Table


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who waits for room: its turn, the bytes it needs, since when (wall clock, seconds), and who it is."""

    turn: int
    length: int
    since: float
    owner: str


def join(table: Table, length: int, owner: str) -> int:
    """Wait behind everybody else; the turn. 0 when the line is full: then one waits without a place."""
    free = np.flatnonzero(table.waiters["turn"] == 0)
    if not free.size:
        return 0
    turn = table.next_generation()
    table.waiters[free[0]] = (0, length, time.time(), owner.encode())
    table.waiters["turn"][free[0]] = turn
    table.numbers[Number.WAITING] += 1
    return turn


def leave(table: Table, turn: int) -> bool:
    """Wait no longer; ``False``, and harmless, for one who does not wait."""
    rows = np.flatnonzero(table.waiters["turn"] == turn) if turn else ()
    for row in rows:
        table.waiters["turn"][row] = 0
        table.numbers[Number.WAITING] -= 1
    return len(rows) > 0


def leave_all(table: Table, owner: str) -> None:
    """``owner`` waits no longer, however often it does."""
    for waiter in waiting(table):
        if waiter.owner == owner:
            leave(table, waiter.turn)


def waiting(table: Table) -> list[Waiter]:
    """Everybody in the line, first to last."""
    rows = table.waiters[table.waiters["turn"] > 0]
    return [Waiter(int(r["turn"]), int(r["length"]), float(r["since"]), r["owner"].decode()) for r in np.sort(rows)]


def is_first(table: Table, turn: int, is_alive: Callable[[str], bool]) -> bool:
    """Whether nobody alive is before ``turn``; 0 has no place, so everybody is."""
    if not table.numbers[Number.WAITING]:
        return True
    for waiter in waiting(table):
        if waiter.turn == turn:
            return True
        if is_alive(waiter.owner):
            return False
        leave(table, waiter.turn)
    return True
