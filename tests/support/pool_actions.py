"""Two workers, two schedulers and a janitor, who do things to a pool and compare every answer with the model's."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from forebay import DType
from forebay.ticket import Handle
from handoff.pool import FeatureCache, Flight, Found, HoldState, Owner, Pending, Pool, StaleHandleError, is_alive
from handoff.pool.table import Number, aligned
from tests.support.audit import audit, is_empty
from tests.support.pool_model import ModelHold, ModelPool

WORKERS, SCHEDULERS = (0, 1), (2, 3)


class Member:
    """One process: its life, its view of the pool, and what it waits for."""

    def __init__(self, folder: Path, number: int) -> None:
        self.life = Owner(folder, "worker" if number in WORKERS else "scheduler")
        self.id = self.life.id
        self.pool = Pool(folder / "pool", self.id, writable=number in WORKERS)
        self.cache = FeatureCache(self.pool)
        self.turn = 0

    def end(self) -> None:
        """Die, and leave everything as it is."""
        self.life.close()
        self.pool.close()


class Actions:
    """A node. ``who`` is a member's number; ``n`` chooses among whatever there is to choose from."""

    def __init__(self, size: int, slots: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="forebay-test-", dir="/dev/shm")
        self.path = Path(self.folder.name)
        Pool.create(self.path / "pool", size)
        self.members = [Member(self.path, number) for number in WORKERS + SCHEDULERS]
        self.model = ModelPool(size, slots, lambda owner: is_alive(self.path, owner), budget=0)
        self.set_budget(0, size)
        self.gone: list[Handle] = []  # they lead nowhere any more
        self.seen = []  # what the janitor saw when it looked last
        self.spoken_for: set[str] = set()
        self.flights: list[tuple[str, Flight, bytes]] = []  # also those that have ended
        self.number = 0

    def holds(self, member: Member, *states: HoldState) -> list[Handle]:
        """What a member has in these states, the oldest first."""
        own = [(h, hold) for h, hold in self.model.holds.items() if member.id in (hold.owner, hold.reader)]
        return [handle for handle, hold in own if hold.state in states and member.id == hold.holder]

    def next_byte(self) -> int:
        self.number += 1
        return self.number % 255 + 1

    def drop(self, handle: Handle) -> None:
        self.model.drop(handle)
        self.gone.append(handle)

    # workers

    def allocate(self, who: int, lengths: Sequence[int], *, jumps: bool) -> list[Handle]:
        member, rid = self.members[who], f"r{self.number}"
        if sum(map(aligned, lengths)) > member.pool.data_bytes:
            with pytest.raises(ValueError, match=f"the pool has {member.pool.data_bytes}"):
                member.pool.allocate_all(lengths, rid, 1, turn=member.turn, jumps=jumps)
            return []
        may = jumps or self.model.may_go(member.turn)
        expected = self.model.allocate(lengths, self.next_byte) if may else None

        blocks = member.pool.allocate_all(lengths, rid, 1, turn=member.turn, jumps=jumps)

        assert (blocks is None) == (expected is None)
        for block, model in zip(blocks or (), expected or (), strict=True):
            assert (block.handle.offset, block.handle.length) == (model.offset, model.length)
            block.carve((model.length,), DType.UINT8)[0][:] = model.byte
            self.model.holds[block.handle] = ModelHold(model, HoldState.WRITING, member.id, "", rid)
        return [block.handle for block in blocks or ()]

    def park(self, who: int, n: int) -> None:
        for handle in _choose(self.holds(self.members[who], HoldState.WRITING), n):
            self.members[who].pool.park(handle)
            self.model.holds[handle].state = HoldState.PARKED
            self.spoken_for.add(self.model.holds[handle].rid)

    def abandon_all(self, who: int, n: int) -> None:
        member = self.members[who]
        handles = self.holds(member, HoldState.WRITING)
        kept = handles[: n % 3]

        assert member.pool.abandon_all(keep=kept) == len(handles) - len(kept)

        for handle in sorted(handles[len(kept) :], key=lambda handle: handle.slot):  # as they stand in the table
            self.drop(handle)
        self.model.line = [waiter for waiter in self.model.line if waiter[1] != member.id]
        self.model.flights = {key: one for key, one in self.model.flights.items() if one[1] != member.id}
        member.turn = 0

    # the cache

    def seek(self, who: int, keys: Sequence[bytes]) -> None:
        member, rid = self.members[who], f"r{self.number}"
        for key, sought in zip(keys, member.cache.seek(keys, rid, 1), strict=True):
            entry, flight = self.model.entry(key), self.model.flights.get(key)
            if entry is not None and self.model.is_out_of_holds:
                assert sought is None
            elif entry is not None:
                assert isinstance(sought, Found)
                assert (sought.block.handle.offset, sought.note) == (entry.offset, bytes([entry.byte]) * 4)
                self.model.holds[sought.block.handle] = ModelHold(entry, HoldState.WRITING, member.id, "", rid)
            elif flight is not None and flight[1] != member.id and self.model.is_alive(flight[1]):
                assert sought == Pending(flight[1])
            else:
                assert isinstance(sought, Flight)
                self.model.flights[key] = (sought, member.id)
                self.flights.append((member.id, sought, key))

    def make(self, who: int, key: bytes, length: int) -> None:
        """Seek a key, and make what is not there."""
        self.seek(who, [key])
        if self.model.flights.get(key, (None, ""))[1] == self.members[who].id:
            handles = self.allocate(who, [length], jumps=True)
            self._end(self.members[who], self.model.flights[key][0], key, handles)

    def make_some(self, who: int, keys: Sequence[bytes], length: int) -> None:
        """Make entries, and let them go at once."""
        for key in keys:
            self.make(who, key, length)
            self.free_own(who, -1)

    def end_flight(self, n: int, commits: bool) -> None:
        """Also one that has ended, or that another has taken over; but the dead end nothing."""
        for owner, flight, key in _choose(self.flights[::-1], n):
            for member in self.members:
                if member.id == owner:
                    mine = self.holds(member, HoldState.WRITING)
                    new = [handle for handle in mine if self.model.holds[handle].block.key is None]
                    self._end(member, flight, key, new[-1:] if commits else [])

    def _end(self, member: Member, flight: Flight, key: bytes, handles: Sequence[Handle]) -> None:
        for handle in handles:
            member.cache.commit(flight, key, handle, (0, 4))
            self.model.enter(self.model.holds[handle].block, key)
        if not handles:
            member.cache.abandon(flight)
        if self.model.flights.get(key, (None, ""))[0] == flight:
            del self.model.flights[key]

    def pin(self, who: int, key: bytes, *, pinned: bool) -> None:
        entry = self.model.entry(key)

        assert self.members[who].cache.pin(key.hex(), pinned=pinned) is (entry is not None)

        if entry is not None:
            entry.is_pinned = pinned
            self.model.trim()

    def set_budget(self, who: int, budget: int) -> None:
        self.members[who].cache.set_budget(budget)
        self.model.budget = budget
        self.model.trim()

    def clear(self, who: int) -> None:
        entries = self.model.entries()
        assert self.members[who].cache.clear() == len(entries)
        for entry in entries:
            self.model.forget(entry)

    # schedulers

    def take(self, who: int, n: int) -> None:
        """A parked block, or one whose reader's lease has lapsed; a shared one by the rank that it is for."""
        member = self.members[who]
        holds = self.model.holds.items()
        handles = [handle for handle, hold in holds if hold.state in (HoldState.PARKED, HoldState.READING)]
        for handle in _choose(handles + self.holds(member, HoldState.SHARED), n):
            block, hold = member.pool.take(handle), self.model.holds[handle]
            assert block.bytes_at(0, handle.length) == bytes([hold.block.byte]) * handle.length
            hold.reader = member.id
            hold.state = max(hold.state, HoldState.READING)

    def share(self, who: int, n: int) -> None:
        member, ranks = self.members[who], [self.members[other].id for other in SCHEDULERS][: n % 2 + 1]
        handles = self.holds(member, HoldState.READING)[: n % 3 + 1]
        if not self.model.can_share(handles, ranks):
            with pytest.raises(StaleHandleError):
                member.pool.share(handles, ranks)
            return
        for rank, given in zip(ranks, member.pool.share(handles, ranks), strict=True):
            for handle, shared in zip(handles, given, strict=True):
                hold = self.model.holds[handle]
                self.model.holds[shared] = ModelHold(hold.block, HoldState.SHARED, member.id, rank, hold.rid)

    # everybody

    def free(self, who: int, handles: Sequence[Handle], n: int) -> None:
        """One of these, whether the member may or not."""
        for handle in _choose(handles, n):
            may = self.model.may_free(handle, self.members[who].id)
            assert self.members[who].pool.free(handle) is may
            if may:
                self.drop(handle)

    def free_own(self, who: int, n: int) -> None:
        """What a member holds itself."""
        self.free(who, self.holds(self.members[who], HoldState.WRITING, HoldState.READING, HoldState.SHARED), n)

    def free_others(self, who: int, n: int) -> None:
        """What is parked, what others read, and what is gone."""
        holds = self.model.holds.items()
        self.free(who, [handle for handle, hold in holds if hold.state > HoldState.WRITING] + self.gone[-3:], n)

    def use_what_is_gone(self, who: int, n: int) -> None:
        pool = self.members[who].pool
        for handle in _choose(self.gone[-5:], n):
            assert pool.is_current(handle) is False
            for verb in (pool.park, pool.take, lambda handle: pool.share([handle], ["rank"])):
                with pytest.raises(StaleHandleError):
                    verb(handle)

    def join_line(self, who: int, length: int) -> None:
        member = self.members[who]
        if not member.turn:
            member.turn = member.pool.join_line(length)
            self.model.line.append((member.turn, member.id, length))

    def leave_line(self, who: int) -> None:
        member = self.members[who]
        member.pool.leave_line(member.turn, 0.0)
        self.model.leave(member.turn)
        member.turn = 0

    def die(self, who: int) -> None:
        """Another one comes in its place."""
        self.members[who].end()
        self.members[who] = Member(self.path, who)

    def crash(self, seed: int) -> None:
        """Somebody dies in the middle of a change: what follows from the rest is nonsense, and the mark is there."""
        nonsense = np.random.default_rng(seed)
        with self.members[0].pool.locked() as table:
            for column in (table.refs, table.starts, table.ends):
                column[:] = nonsense.integers(0, 2**31, len(column))
            for number in (Number.BLOCKS, Number.CACHED_BYTES, Number.WAITING):
                table.numbers[number] = int(nonsense.integers(0, 2**31))
            table.taken[:] = nonsense.integers(0, 2, len(table.taken))
            table.numbers[Number.DIRTY] = 1

    # the janitor

    def end_tickets(self, n: int) -> None:
        """Done, cancelled, expired: no request leads to their blocks any more."""
        self.spoken_for.difference_update(sorted(self.spoken_for)[n % 3 :: 3])

    def look(self) -> None:
        self.seen = self.members[3].pool.blocks()

    def sweep(self) -> None:
        """By what was seen, however long ago; what has changed since is left."""
        for info in self.seen:
            seen = ModelHold(None, info.state, info.owner, info.reader, info.rid)
            if self.model.is_orphan(seen, self.spoken_for):
                now = self.model.holds.get(info.handle)
                same = now is not None and (now.state, now.reader) == (info.state, info.reader)
                assert self.members[2].pool.free_if(info) is same
                if same:
                    self.drop(info.handle)

    def sweep_the_line(self) -> None:
        pool = self.members[1].pool
        for waiter in pool.waiting():
            if not self.model.is_alive(waiter.owner):
                pool.drop_waiter(waiter)
                self.model.leave(waiter.turn)

    # looking

    def check(self) -> None:
        """The table says what the model says, and every byte is where it was written."""
        pool, model = self.members[0].pool, self.model
        audit(pool)
        said = {one.handle: (one.state, one.owner, one.reader, one.rid) for one in pool.blocks()}
        assert said == {handle: (h.state, h.owner, h.reader, h.rid) for handle, h in model.holds.items()}
        entries = [(one.key, one.offset, one.length, one.is_pinned) for one in self.members[0].cache.entries()]
        assert entries == [(one.key.hex(), one.offset, one.length, one.is_pinned) for one in model.entries()]
        assert [(one.turn, one.owner, one.length) for one in pool.waiting()] == model.line
        assert dict(self.members[0].cache.flights()) == dict(model.flights.values())
        held = [block for block in model.blocks if model.is_held(block)]
        pinned = [one for one in model.entries() if one.is_pinned and not model.is_held(one)]
        assert pool.stats().free_bytes == model.size - sum(block.length for block in [*held, *pinned])
        data = np.frombuffer(pool._map.data, np.uint8)
        for block in model.blocks:
            assert (data[block.offset : block.offset + block.length] == block.byte).all()

    def end(self) -> None:
        """Give everything back; then nothing is left. The folder goes all the same."""
        pool = self.members[0].pool
        for info in pool.blocks():
            assert pool.free_if(info) is True
        self.members[0].cache.clear()
        assert is_empty(pool)
        for member in self.members:
            member.end()


def _choose(things, n):
    """One of them; none of none."""
    return [things[n % len(things)]] if things else []
