"""What must be true of a node after one round of the janitor, whoever was killed before."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np

from forebay.media import digest_of
from forebay.ticket import Handle, Ticket
from handoff import drafts, record
from handoff.connection import Client
from handoff.note import Note
from handoff.pool import FeatureCache, Flight, Owner, Pool
from handoff.pool.owners import the_dead
from tests.support.audit import audit
from tests.support.kill.gallery import FEATURES, PICTURES, drawn
from tests.support.kill.mortals import KEYS, NODE, Site, janitor_of
from workers import sweep

ANSWERS_WITHIN_S = 5.0
_PICTURE = {digest_of(drawn(picture)): picture for picture in range(PICTURES)}


class BrokenLawError(AssertionError):
    """Something is as it must never be."""


@contextmanager
def inspected(site: Site, redis: Client) -> Iterator[Inspection]:
    """A life and a pool of the inspector's own, for the time of the block."""
    life = Owner(site.folder, "inspector")
    pool = Pool(site.folder / "pool", life.id, writable=True)
    try:
        yield Inspection(site, redis, life, pool)
    finally:
        pool.close()
        life.close()


class Inspection:
    """Looks at a node in which nobody is at work: all are dead, or everything is done."""

    def __init__(self, site: Site, redis: Client, life: Owner, pool: Pool) -> None:
        self._site = site
        self._redis = redis
        self._life = life
        self._pool = pool
        self._cache = FeatureCache(pool)

    def check(self) -> None:
        """The whole law.

        Raises:
            BrokenLawError: what is wrong, and all that is known of it.
        """
        with answering("a round of the janitor"), _no_grace():
            self._sweep()
        try:
            audit(self._pool)
        except AssertionError as error:
            raise BrokenLawError(f"the table contradicts itself:\n{traceback.format_exc()}") from error
        self._check_holds()
        self._check_the_dead()
        self._check_entries()
        self._check_verbs()

    def check_empty(self) -> None:
        """Nothing is held; what is left are entries, and they go when they are told to."""
        stats = self._pool.stats()
        _demand(stats.used_bytes == 0, f"{stats.used_bytes} bytes are held when everything is done: {stats}")
        self._cache.clear()
        stats = self._pool.stats()
        _demand(stats.cached_bytes == stats.entries == 0, f"entries outlive their end: {stats}")

    def _sweep(self) -> None:
        self._redis.delete(KEYS.janitor(NODE))  # one of the cast may live, and have the turn
        janitor_of(self._site, self._redis, self._life, self._pool).tick()
        self._redis.delete(KEYS.janitor(NODE))

    def _check_holds(self) -> None:
        """Every byte that is held is of a live request's ticket."""
        tickets = self._of_live_tickets()
        held = {info.handle: info for info in self._pool.blocks()}
        strangers = [info for handle, info in held.items() if handle not in tickets]
        _demand(not strangers, f"held by nobody: {[(*self._told(info.rid), info) for info in strangers]}")
        expected = sum({handle.offset: handle.length for handle in tickets if handle in held}.values())
        used = self._pool.stats().used_bytes
        _demand(used == expected, f"{used} bytes are held, {expected} are of live tickets")

    def _of_live_tickets(self) -> set[Handle]:
        rids = [rid.decode() for rid in self._redis.zrange(KEYS.due, 0, -1)]
        found = [record.read(self._redis, KEYS, rid) for rid in rids]
        tickets = [Ticket.unpack(one.ticket) for one in found if one is not None and one.ticket]
        return {handle for ticket in tickets for handle in ticket.blocks}

    def _told(self, rid: str) -> tuple[str, ...]:
        found = record.read(self._redis, KEYS, rid)
        return ("no record",) if found is None else (str(found.state), f"attempt {found.attempt}", found.owner)

    def _check_the_dead(self) -> None:
        folder = self._site.folder
        left = {
            "lock files": the_dead(folder),
            "waiters": self._pool.waiting(),
            "flights": self._cache.flights(),
            "drafts": [path.name for path in folder.glob(f"{drafts._MARK}*")],
        }
        _demand(not any(left.values()), f"left of the dead: {left}")

    def _check_entries(self) -> None:
        """Whoever finds an entry finds its picture's features."""
        with self._pool.locked() as table:
            for slot in np.flatnonzero(table.entry).tolist():
                start, length = int(table.note_start[slot]), int(table.note_length[slot])
                note = Note.unpack(self._pool.bytes_in(int(table.offset[slot]) + start, length))
                expected = FEATURES[_PICTURE[note.digest]]
                found = self._pool.bytes_in(int(table.offset[slot]) + note.start, expected.nbytes)
                _demand(found == expected.tobytes(), f"the entry of {note.digest} in slot {slot} is not its picture's")

    def _check_verbs(self) -> None:
        """No lock is stuck: whatever is asked of the pool is answered."""
        pool, cache = self._pool, self._cache
        with answering("the pool's verbs"):
            block = pool.allocate(64, "inspection", 1)
            if block is not None:
                pool.park(block.handle)
                pool.take(block.handle)
                [[shared]] = pool.share([block.handle], [pool.owner])
                _demand(pool.is_current(block.handle), "a fresh block is stale")
                _demand(pool.free(block.handle) and pool.free(shared), "a block of our own is not freed")
            [sought] = cache.seek([b"inspection".ljust(32, b".")], "inspection", 1)
            _demand(isinstance(sought, Flight), f"a new key was sought, and is {sought}")
            cache.abandon(sought)
            pool.leave_line(pool.join_line(64), 0.0)
            pool.blocks(), cache.entries(), pool.stats()


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Whatever happens in the block, it does not take long.

    Raises:
        BrokenLawError: it did.
    """

    def too_late(_number: int, _frame: FrameType | None) -> None:
        raise BrokenLawError(f"{what} got no answer within {ANSWERS_WITHIN_S:.0f} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, ANSWERS_WITHIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _no_grace() -> Iterator[None]:
    """In this process nothing is too young to be swept: nobody is at work who would need the time."""
    before = sweep._GRACE_S, sweep._MARK_KEPT_S, drafts._YOUNG_S
    sweep._GRACE_S = sweep._MARK_KEPT_S = drafts._YOUNG_S = -1.0
    try:
        yield
    finally:
        sweep._GRACE_S, sweep._MARK_KEPT_S, drafts._YOUNG_S = before


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenLawError(what)
