"""Every verb of the pool, each in a setting where it has much to do, to be cut short by whoever imports this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from handoff.pool import Block, FeatureCache, Pool
from handoff.pool.table import Number

SIZE = 64 * 1024
FULL = 16 * 1024  # four of these are the pool
KEYS = [bytes([n]) * 32 for n in range(20)]
LIVING, MORTAL = "worker-living", "worker-mortal"


@dataclass
class Node:
    """A pool with two who use it: one that lives on, and one that dies or is interrupted. Nobody else is alive."""

    living: Pool
    mortal: Pool

    def __post_init__(self) -> None:
        for pool in (self.living, self.mortal):
            pool.is_alive = {LIVING, MORTAL}.__contains__
        self.cache, self.mortals_cache = FeatureCache(self.living), FeatureCache(self.mortal)

    def empty(self) -> None:
        """Free every hold as the janitor does, end what is being made and waited for, and forget every entry."""
        for info in self.living.blocks():
            assert self.living.free_if(info)
        for waiter in self.living.waiting():
            self.living.drop_waiter(waiter)
        for flight, _ in self.cache.flights():
            self.cache.abandon(flight)
        self.cache.clear()


@contextmanager
def open_node(folder: Path) -> Iterator[Node]:
    """A new pool in a folder on tmpfs, for the time of the block."""
    Pool.create(folder / "pool", SIZE)
    node = Node(*(Pool(folder / "pool", owner, writable=True) for owner in (LIVING, MORTAL)))
    yield node
    node.living.close()
    node.mortal.close()


def take(pool: Pool, length: int = 1024, rid: str = "r1") -> Block:
    block = pool.allocate(length, rid, 1)
    assert block is not None
    return block


def enter(node: Node, number: int, length: int = FULL, *, held: bool = False) -> Block:
    """An entry of the cache, which the living one has made."""
    block = take(node.living, length, f"made {number}")
    [flight] = node.cache.seek([KEYS[number]], "r", 1)
    node.cache.commit(flight, KEYS[number], block.handle, (0, 8))
    if not held:
        node.living.free(block.handle)
    return block


# each prepares the node, and returns what the mortal one is about to do


def allocates(node):
    return lambda: node.mortal.allocate(1024, "r1", 1)


def allocates_between_others(node):
    blocks = [take(node.living, 4096, f"n{n}") for n in range(6)]
    for n in (1, 3):
        node.living.free(blocks[n].handle)
    return lambda: node.mortal.allocate_all([4096, 64, 4096], "r1", 1)


def allocates_what_does_not_fit(node):
    take(node.living, 3 * FULL)
    return lambda: node.mortal.allocate_all([FULL // 2, FULL // 2, 64], "r1", 1)


def allocates_where_entries_lie(node):
    for n in range(4):
        enter(node, n)
    return lambda: node.mortal.allocate_all([FULL, FULL + 64], "r1", 1)


def parks(node):
    handle = take(node.mortal).handle
    return lambda: node.mortal.park(handle)


def takes(node):
    handle = take(node.living).handle
    node.living.park(handle)
    return lambda: node.mortal.take(handle)


def shares(node):
    handle = take(node.mortal).handle
    return lambda: node.mortal.share([handle], ["rank-1", "rank-2"])


def frees(node):
    handle = take(node.mortal).handle
    return lambda: node.mortal.free(handle)


def frees_one_of_two_holds(node):
    handle = take(node.mortal).handle
    node.mortal.share([handle], ["rank-1"])
    return lambda: node.mortal.free(handle)


def frees_an_entry(node):
    enter(node, 0)
    [found] = node.mortals_cache.seek([KEYS[0]], "r1", 1)
    return lambda: node.mortal.free(found.block.handle)


def frees_an_entry_beyond_the_budget(node):
    enter(node, 0)
    enter(node, 1)
    [found] = node.mortals_cache.seek([KEYS[0]], "r1", 1)
    node.cache.set_budget(FULL)
    return lambda: node.mortal.free(found.block.handle)


def sweeps(node):
    take(node.living)
    infos = [info for info in node.living.blocks() if info.rid == "r1"]
    return lambda: [node.mortal.free_if(info) for info in infos]


def begins_to_make(node):
    return lambda: node.mortals_cache.seek(KEYS[:2], "r1", 1)


def finds(node):
    enter(node, 0)
    enter(node, 1, held=True)
    return lambda: node.mortals_cache.seek(KEYS[:2], "r1", 1)


def takes_over(node):
    table = node.living._map._table
    node.cache.seek(KEYS[:1], "r1", 1)
    table.flights["owner"][0] = b"worker-dead"
    return lambda: node.mortals_cache.seek(KEYS[:1], "r1", 1)


def commits(node):
    handle = take(node.mortal).handle
    [flight] = node.mortals_cache.seek(KEYS[:1], "r1", 1)
    return lambda: node.mortals_cache.commit(flight, KEYS[0], handle, (0, 8))


def abandons(node):
    [flight] = node.mortals_cache.seek(KEYS[:1], "r1", 1)
    return lambda: node.mortals_cache.abandon(flight)


def pins_and_lets_go(node):
    enter(node, 0)
    return lambda: [node.mortals_cache.pin(KEYS[0].hex(), pinned=pinned) for pinned in (True, False)]


def clears(node):
    enter(node, 0)
    enter(node, 1, held=True)
    return node.mortals_cache.clear


def turns_the_cache_off(node):
    enter(node, 0)
    enter(node, 1)
    return lambda: node.mortals_cache.set_budget(0)


def turns_a_full_cache_off(node):
    for n in range(20):
        enter(node, n, 64 * n + 64)
    return lambda: node.mortals_cache.set_budget(0)


def gives_everything_new_up(node):
    kept = [info.handle for info in node.mortal.blocks() if info.owner == MORTAL]
    enter(node, 0)
    take(node.mortal)
    node.mortals_cache.seek(KEYS[:2], "r1", 1)
    node.mortal.join_line(100)
    return lambda: node.mortal.abandon_all(keep=kept)


def waits_in_line(node):
    return lambda: node.mortal.leave_line(node.mortal.join_line(100), 0.1)


def passes_over_the_dead(node):
    for _ in range(2):
        node.living.join_line(100)
    node.living._map._table.waiters["owner"][:2] = b"worker-dead"
    return allocates(node)


def repairs(node):
    enter(node, 0)
    take(node.living)
    node.living._map._table.numbers[Number.DIRTY] = 1
    return node.mortal.stats


VERBS: list[Callable[[Node], Callable[[], object]]] = [
    allocates,
    allocates_between_others,
    allocates_what_does_not_fit,
    allocates_where_entries_lie,
    parks,
    takes,
    shares,
    frees,
    frees_one_of_two_holds,
    frees_an_entry,
    frees_an_entry_beyond_the_budget,
    sweeps,
    begins_to_make,
    finds,
    takes_over,
    commits,
    abandons,
    pins_and_lets_go,
    clears,
    turns_the_cache_off,
    turns_a_full_cache_off,
    gives_everything_new_up,
    waits_in_line,
    passes_over_the_dead,
    repairs,
]
