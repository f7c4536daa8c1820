"""Workers of one node, each with its own life, pool and cache, for tests of what they share."""

from __future__ import annotations

from contextlib import contextmanager

from forebay import DType
from handoff.pool import FeatureCache, Flight, Owner, Pool
from tests.support.audit import audit

ITEM_BYTES = 16 * 1024


class Member:
    """A worker and its cache."""

    def __init__(self, folder, role="worker"):
        self.life = Owner(folder, role)
        self.pool = Pool(folder / "pool", self.life.id, writable=True)
        self.cache = FeatureCache(self.pool)

    def seek(self, key):
        [sought] = self.cache.seek([key], "r1", 1)
        return sought

    def make(self, key, length=ITEM_BYTES, note=b"note"):
        """Make the entry of a key, in blocks whose every byte is the key's; the hold that is left on it."""
        flight = self.seek(key)
        assert isinstance(flight, Flight)
        return self.commit(flight, key, length, note)

    def commit(self, flight, key, length=ITEM_BYTES, note=b"note"):
        block = self.pool.allocate(length, "r1", 1)
        block.carve((length - 64,), DType.UINT8)[0][:] = key[0]
        self.cache.commit(flight, key, block.handle, (block.write(note), len(note)))
        return block.handle

    def keep(self, key, length=ITEM_BYTES):
        """An entry that nobody holds."""
        assert self.pool.free(self.make(key, length)) is True

    def die(self):
        """End this life, and leave everything as it is."""
        self.life.close()

    def close(self):
        audit(self.pool)
        self.pool.close()
        self.life.close()


@contextmanager
def membership(folder, size):
    """A new pool with a cache that may fill it, and a function by which one more takes part."""
    Pool.create(folder / "pool", size)
    members = []

    def join(role="worker"):
        members.append(Member(folder, role))
        members[-1].cache.set_budget(size)
        return members[-1]

    yield join
    for member in members:
        member.close()
