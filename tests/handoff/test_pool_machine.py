"""The whole pool against a model: whatever its processes do in whichever order, no byte is lost, shared or stale."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from hypothesis.stateful import run_state_machine_as_test as run

from handoff.pool import table as tables
from tests.support.long import LONG
from tests.support.pool_actions import SCHEDULERS, WORKERS, Actions

SIZE = 128 * 1024
SLOTS = 12  # few, so that the table is full as well as the data
KEYS = [bytes([n]) * 32 for n in range(1, 5)]

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

    @rule(who=workers, key=keys, length=lengths)
    def make_and_let_go(self, who, key, length):
        self.do.make(who, key, length)
        self.do.free_own(who, -1)

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
        self.do.close()


def test_the_pool_does_what_the_model_says(monkeypatch):
    """Processes that allocate, hand over, share, cache, wait and die, in every order that chance finds."""
    monkeypatch.setattr(tables, "LEAST_SLOTS", SLOTS)
    bounded = settings(
        max_examples=10_000 if LONG else 150,
        stateful_step_count=50,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )

    run(Node, settings=bounded)
