"""A few processes with a few steps each, in every order of those steps: whoever comes first, nobody loses a byte."""

from collections import Counter, deque
from functools import partial

import pytest

from forebay import DType
from handoff.pool import FeatureCache, Flight, Found, HoldState, Pool, StaleHandleError
from tests.support.audit import audit, is_empty
from tests.support.interleaving import orders, play
from tests.support.long import LONG

SIZE = 16 * 1024
BLOCK = SIZE // 4
ALL = 26_000 if LONG else 300  # of four actors with ten steps
MANY = 10_000 if LONG else 300
KEY = b"k" * 32


class World:
    """A node, and what Redis would know of its one request. ``request`` is what the scripts in ``handoff/lua`` say."""

    def __init__(self, folder):
        Pool.create(folder / "pool", SIZE)
        self.path = folder / "pool"
        self.pools = {}
        self.freed = Counter()
        self.reset()

    def reset(self):
        """Another run; the one before has left nothing."""
        self.dead = set()
        self.request, self.claim, self.handle, self.purge = "processing", "", None, []
        self.shared, self.served = [], []
        self.freed.clear()

    def pool(self, name):
        if name not in self.pools:
            self.pools[name] = Pool(self.path, name, writable=True)
            self.pools[name].is_alive = self.is_alive
        return self.pools[name]

    def is_alive(self, name):
        return name not in self.dead

    def write(self, name, byte, length=BLOCK, **how):
        """A block whose every byte is the same, if there is room."""
        blocks = self.pool(name).allocate_all([length], "r1", 1, **how)
        if blocks is None:
            return None
        blocks[0].carve((length,), DType.UINT8)[0][:] = byte
        return blocks[0]

    def free(self, name, handle):
        self.freed[handle] += self.pool(name).free(handle)

    def is_orphan(self, info):
        """As the janitor's sweep has it."""
        if info.state is HoldState.WRITING:
            return info.owner in self.dead
        if info.state is HoldState.SHARED or (info.state is HoldState.READING and self.is_alive(info.reader)):
            return info.reader in self.dead
        if self.request == "processing":
            return "worker" in self.dead
        return self.request not in ("parked", "admitted")

    def sweep(self, infos):
        for info in infos:
            if self.is_orphan(info):
                self.freed[info.handle] += self.pool("janitor").free_if(info)

    def end(self):
        """Everybody's work is done: a last sweep, and then nothing is left."""
        janitor = self.pool("janitor")
        audit(janitor)
        self.request = "ended"
        self.dead |= set(self.pools) - {"janitor"}
        self.sweep(janitor.blocks())
        cache = FeatureCache(janitor)
        for flight, _ in cache.flights():
            cache.abandon(flight)
        for waiter in janitor.waiting():
            janitor.drop_waiter(waiter)
        cache.clear()
        audit(janitor)
        assert is_empty(janitor)
        assert not self.freed or max(self.freed.values()) == 1  # no hold was given up twice


@pytest.fixture
def world(shm):
    world = World(shm)
    yield world
    for pool in world.pools.values():
        pool.close()


def bytes_of(block):
    return set(block.bytes_at(0, BLOCK))


# actors; each has as many steps as it says


def worker(world):
    """3 steps: write, park the block, park the ticket; a late result is given back."""
    block = world.write("worker", 1)
    world.handle = block and block.handle
    yield
    if block:
        world.pool("worker").park(block.handle)
    yield
    if block and world.request == "processing":
        world.request = "parked"
    elif block:
        world.free("worker", block.handle)


def scheduler(world, name="scheduler"):
    """3 steps: claim and map, read, release. Between claim and map there is less than a lease."""
    block = None
    if world.request == "parked":
        world.request, world.claim = "admitted", name
        try:
            block = world.pool(name).take(world.handle)
        except StaleHandleError:
            world.request = "features gone"
    yield
    if block and world.claim == name:
        assert bytes_of(block) == {1}
    yield
    if block:
        world.free(name, block.handle)
        if world.claim == name and world.request == "admitted":
            world.request = "done"


def lapser(world):
    """1 step: a lease that was not renewed in time; the ticket is parked again."""
    if world.request == "admitted":
        world.request, world.claim = "parked", ""
    yield


def canceller(world):
    """2 steps: the client cancels; what was parked is freed."""
    if world.request == "parked":
        world.purge = [world.handle]
    if world.request in ("processing", "parked"):
        world.request = "cancelled"
    yield
    for handle in world.purge:
        world.free("canceller", handle)


def janitor(world):
    """2 steps: look, and free what was nobody's."""
    infos = world.pool("janitor").blocks()
    yield
    world.sweep(infos)


def newcomer(world, length=BLOCK):
    """2 steps: somebody else's block, which must be nobody's when it gets it, and its own until it goes."""
    block = world.write("newcomer", 9, length)
    yield
    if block:
        assert bytes_of(block) == {9}
        world.free("newcomer", block.handle)


def everything_at_once(world):
    """2 steps: a block as large as the pool."""
    return newcomer(world, length=SIZE)


def killer(world, name):
    """1 step: somebody dies."""
    world.dead.add(name)
    yield


def play_all(world, actors, *, before=None, most=MANY, check=lambda: None):
    """Every order, or a sample of so many; ``actors`` are name, actor and number of steps, ``before`` is done first."""
    named = {name: partial(act, world) for name, act, _ in actors}
    for turns in orders([steps for _, _, steps in actors], most):
        world.reset()
        deque(before(world) if before else (), maxlen=0)
        play(named, turns, world.is_alive)
        check()
        world.end()


def test_a_request_is_handed_over_cancelled_and_swept(world):
    """In whichever order; the block goes exactly once, with the request, and stays as long as a ticket is parked."""

    def check():
        left = {"parked": 1, "admitted": 1}.get(world.request, 0)
        if world.request not in ("processing", "features gone"):
            assert len(world.pool("janitor").blocks()) == left

    actors = [("worker", worker, 3), ("scheduler", scheduler, 3), ("canceller", canceller, 2), ("janitor", janitor, 2)]
    play_all(world, actors, most=ALL, check=check)


def test_a_dead_worker_and_two_janitors(world):
    """Its block is freed once if no ticket leads to it, and never if one does."""
    actors = [("worker", worker, 3), ("killer", partial(killer, name="worker"), 1)]
    sweepers = [("janitor", janitor, 2), ("other janitor", janitor, 2), ("newcomer", everything_at_once, 2)]
    play_all(world, actors + sweepers)


def test_a_lapsed_lease_and_two_schedulers(world):
    """Whoever holds the lease reads what was written, and the other cannot take it away."""
    actors = [("one", partial(scheduler, name="one"), 3), ("two", partial(scheduler, name="two"), 3)]
    others = [("lapser", lapser, 1), ("newcomer", everything_at_once, 2)]
    play_all(world, actors + others, before=worker, most=ALL)


def test_a_dead_scheduler_whose_ticket_is_parked_again(world):
    """Its block waits for the next one, and the janitor leaves it alone."""
    actors = [("one", partial(scheduler, name="one"), 3), ("two", partial(scheduler, name="two"), 3)]
    death = [("lapser", lapser, 1), ("killer", partial(killer, name="one"), 1), ("janitor", janitor, 2)]
    play_all(world, actors + death, before=worker)


# several ranks


def first_rank(world):
    """3 steps: map and share, read, release."""
    block = world.write("first", 1)
    if block:
        pool = world.pool("first")
        pool.park(block.handle)
        block = pool.take(block.handle)
        world.shared = [handle for [handle] in pool.share([block.handle], ["second", "third"])]
    yield
    if block:
        assert bytes_of(block) == {1}
    yield
    if block:
        world.free("first", block.handle)
        world.request = "done"


def later_rank(world, name, number):
    """3 steps: map what was shared with it, read, release."""
    shared = world.shared[number : number + 1]
    blocks = [world.pool(name).take(handle) for handle in shared]
    yield
    assert all(bytes_of(block) == {1} for block in blocks)
    yield
    for block in blocks:
        world.free(name, block.handle)


def test_several_ranks_one_of_which_dies(world):
    """The features stay until the last living one has released them."""
    ranks = [("first", first_rank, 3), ("second", partial(later_rank, name="second", number=0), 3)]
    third = [("third", partial(later_rank, name="third", number=1), 3), ("killer", partial(killer, name="third"), 1)]
    play_all(world, [*ranks, *third, ("janitor", janitor, 2), ("newcomer", everything_at_once, 2)])


# the cache


def maker(world, name, byte):
    """4 steps: seek, write, commit, release; what is found is read instead."""
    cache = FeatureCache(world.pool(name))
    [sought] = cache.seek([KEY], "r1", 1)
    yield
    block = None
    if isinstance(sought, Found):
        assert len(bytes_of(sought.block)) == 1
    elif isinstance(sought, Flight):
        block = world.write(name, byte)
    yield
    if isinstance(sought, Found):
        world.free(name, sought.block.handle)
    elif block:
        cache.commit(sought, KEY, block.handle, (0, 4))
    elif isinstance(sought, Flight):
        cache.abandon(sought)
    yield
    if block:
        assert bytes_of(block) == {byte}
        world.free(name, block.handle)


def test_one_item_is_made_found_and_evicted(world):
    """Whoever finds it reads what one of its makers wrote; there is never more than one entry."""
    FeatureCache(world.pool("janitor")).set_budget(SIZE)

    def check():
        entries = FeatureCache(world.pool("janitor")).entries()
        assert len(entries) <= 1
        assert all(entry.note in (b"\x01" * 4, b"\x02" * 4) for entry in entries)

    makers = [(name, partial(maker, name=name, byte=byte), 4) for name, byte in (("a", 1), ("b", 2))]
    others = [("killer", partial(killer, name="a"), 1), ("newcomer", everything_at_once, 2)]
    play_all(world, [*makers, *others, ("janitor", janitor, 2)], check=check)


# the line


def waiter(world, name, length):
    """4 steps: join, try twice, leave; who gets a block notes its turn and gives it back."""
    turn = world.pool(name).join_line(length)
    yield
    for _ in range(2):
        block = world.write(name, 1, length, turn=turn)
        if block:
            world.served.append(turn)
            world.free(name, block.handle)
        yield
    world.pool(name).leave_line(turn, 0.0)


def test_nobody_is_served_before_one_who_has_waited_longer(world):
    """While that one lives and waits; the dead and those who have left are passed over."""

    def check():
        assert world.served == sorted(world.served)

    lengths = {"a": SIZE, "b": BLOCK, "c": BLOCK}
    waiters = [(name, partial(waiter, name=name, length=length), 4) for name, length in lengths.items()]
    play_all(world, [*waiters, ("killer", partial(killer, name="a"), 1)], check=check)
