"""The whole pool against a model: whatever its processes do in whichever order, no byte is lost, shared or stale."""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run

from handoff.pool import table as tables
from tests.support.long import LONG
from tests.support.pool_actions import SCHEDULERS, WORKERS, Actions

SIZE = 128 * 1024
SLOTS = 16  # few, so that the table is full as well as the data
KEYS = [bytes([n // 2]) * 8 + bytes([n]) * 24 for n in range(2, 6)]  # two begin as another does

picks = st.integers(0, 1000)
workers = st.sampled_from(WORKERS)
schedulers = st.sampled_from(SCHEDULERS)
anybody = st.sampled_from(WORKERS + SCHEDULERS)
lengths = st.one_of(st.integers(1, 128), st.integers(129, SIZE // 2), st.integers(SIZE // 8, SIZE // 4))
keys = st.sampled_from(KEYS)


class Node(RuleBasedStateMachine):
    """What its members may do. What fills the pool is said several times, to outweigh what empties it."""

    def __init__(self):
        super().__init__()
        self.do = Actions(SIZE, SLOTS)

    @rule(who=workers, length=lengths, jumps=st.booleans())
    def allocate(self, who, length, jumps):
        self.do.allocate(who, [length], jumps=jumps)

    @rule(who=workers, several=st.lists(lengths, min_size=1, max_size=3))
    def allocate_all(self, who, several):
        self.do.allocate(who, several, jumps=False)

    @rule(who=workers, n=picks)
    def park(self, who, n):
        self.do.park(who, n)

    @rule(who=workers, keys=st.lists(keys, min_size=1, unique=True))
    def seek(self, who, keys):
        self.do.seek(who, keys)

    @rule(who=workers, key=keys, length=lengths)
    def make(self, who, key, length):
        self.do.make(who, key, length)

    @rule(who=workers, some=st.lists(keys, unique=True), length=st.integers(1, SIZE // 8))
    def make_some(self, who, some, length):
        self.do.make_some(who, some, length)

    @rule(n=st.integers(0, 5), commits=st.booleans())
    def end_flight(self, n, commits):
        self.do.end_flight(n, commits)

    @rule(who=anybody, key=keys, pinned=st.booleans())
    def pin(self, who, key, pinned):
        self.do.pin(who, key, pinned=pinned)

    @rule(who=schedulers, n=picks)
    def take(self, who, n):
        self.do.take(who, n)

    @rule(who=schedulers, n=picks)
    def share(self, who, n):
        self.do.share(who, n)

    @rule(who=anybody, n=picks)
    def free_own(self, who, n):
        self.do.free_own(who, n)

    @rule(who=anybody, n=picks)
    def free_others(self, who, n):
        self.do.free_others(who, n)

    @rule(who=anybody, length=lengths)
    def join_line(self, who, length):
        self.do.join_line(who, length)

    @rule(who=anybody)
    def leave_line(self, who):
        self.do.leave_line(who)

    @rule(looks=st.booleans())
    def sweep(self, looks):
        if looks:
            self.do.look()
        self.do.sweep()

    @rule(who=anybody, n=picks, what=st.integers(0, 7))
    def something_rare(self, who, n, what):
        """Each for itself would come too often."""
        (
            lambda: self.do.die(who),
            lambda: self.do.crash(n),
            lambda: self.do.abandon_all(who, n),
            lambda: self.do.set_budget(who, (0, SIZE // 8, SIZE // 2, SIZE)[n % 4]),
            lambda: self.do.clear(who),
            lambda: self.do.end_tickets(n),
            self.do.sweep_the_line,
            lambda: self.do.use_what_is_gone(who, n),
        )[what]()

    @invariant()
    def the_pool_is_as_the_model_is(self):
        self.do.check()

    def teardown(self):
        with self.do.folder:
            self.do.end()


@pytest.fixture(autouse=True)
def few_slots(monkeypatch):
    monkeypatch.setattr(tables, "LEAST_SLOTS", SLOTS)


def test_the_pool_does_what_the_model_says():
    """Processes that allocate, hand over, share, cache, wait and die; a failure is told by its fewest steps."""
    bounded = settings(
        max_examples=2_000 if LONG else 60,
        stateful_step_count=50,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )

    run(Node, settings=bounded)


# the same by chance alone, which comes further


def sizes(chance, most):
    """Of small blocks and large ones."""
    return [chance.randint(1, chance.choice((128, SIZE // 8, SIZE * 5 // 16))) for _ in range(chance.randint(1, most))]


def anybody_of(chance):
    return chance.choice(WORKERS + SCHEDULERS)


MOVES = [
    (4, lambda do, c: do.allocate(c.choice(WORKERS), sizes(c, 3), jumps=c.random() < 0.5)),
    (4, lambda do, c: do.park(c.choice(WORKERS), c.randrange(9))),
    (4, lambda do, c: do.take(c.choice(SCHEDULERS), c.randrange(9))),
    (2, lambda do, c: do.share(c.choice(SCHEDULERS), c.randrange(6))),
    (6, lambda do, c: do.free_own(anybody_of(c), c.randrange(9))),
    (2, lambda do, c: do.free_others(anybody_of(c), c.randrange(9))),
    (2, lambda do, c: do.seek(c.choice(WORKERS), c.sample(KEYS, c.randint(1, 3)))),
    (2, lambda do, c: do.make(c.choice(WORKERS), c.choice(KEYS), sizes(c, 1)[0])),
    (4, lambda do, c: do.make_some(c.choice(WORKERS), c.sample(KEYS, 3), SIZE // 8)),
    (1, lambda do, c: do.end_flight(c.randrange(4), c.random() < 0.5)),
    (1, lambda do, c: do.pin(anybody_of(c), c.choice(KEYS), pinned=c.random() < 0.7)),
    (1, lambda do, c: do.join_line(anybody_of(c), sizes(c, 1)[0])),
    (2, lambda do, c: do.leave_line(anybody_of(c))),
    (1, lambda do, c: do.die(anybody_of(c))),
    (1, lambda do, c: do.crash(c.randrange(1000))),
    (1, lambda do, c: do.abandon_all(c.choice(WORKERS), c.randrange(9))),
    (0.5, lambda do, c: do.set_budget(anybody_of(c), c.choice((0, SIZE // 8, SIZE // 2, SIZE, SIZE, SIZE)))),
    (0.2, lambda do, c: do.clear(anybody_of(c))),
    (1, lambda do, c: do.end_tickets(c.randrange(3))),
    (1, lambda do, c: do.look()),
    (2, lambda do, c: do.sweep()),
    (1, lambda do, c: do.sweep_the_line()),
    (1, lambda do, c: do.use_what_is_gone(anybody_of(c), c.randrange(9))),
]


def walk(seed, steps=80):
    """So many moves, some of them more often than others, and some not at all; another choice for each seed."""
    chance = random.Random(seed)
    do = Actions(SIZE, SLOTS)
    weights = [often * chance.choice((0, 1, 1, 3)) for often, _ in MOVES]
    with do.folder:
        for _ in range(steps):
            [(_, move)] = chance.choices(MOVES, weights)
            move(do, chance)
            do.check()
        do.end()


@pytest.mark.parametrize("first", range(0, 8_000 if LONG else 60, 20))
def test_chance_finds_no_order_that_loses_a_byte(first):
    """Long walks from an empty pool back to an empty one; the seed is in the failure."""
    for seed in range(first, first + 20):
        walk(seed)
