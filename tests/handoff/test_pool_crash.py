"""Whoever dies, or is interrupted, between any two steps of a verb leaves a pool that the next one can trust."""

import gc
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from forebay import DType
from handoff.pool import HoldState, Pool
from handoff.pool.table import Number
from tests.support.audit import audit, is_empty
from tests.support.long import LONG
from tests.support.pool_verbs import MORTAL, SIZE, VERBS, enter, open_node, take
from tests.support.steps import dies_at, interrupted_after, interrupted_at

every_verb = pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
_MOST_STEPS = 10_000  # far more than any verb has


@pytest.fixture
def node(shm):
    with open_node(shm) as node:
        yield node


@pytest.fixture
def other_thread():
    with ThreadPoolExecutor(1) as thread:
        yield thread


@pytest.fixture
def no_collector():
    """An exception in a callback of the garbage collector would go nowhere."""
    gc.disable()
    yield
    gc.enable()


@every_verb
def test_death_between_any_two_steps_harms_nobody(node, verb):
    """Wherever it dies: no byte is lost or belongs to two, and what others hold is theirs still."""
    for step in range(_MOST_STEPS):
        node.cache.set_budget(SIZE)
        neighbours = take(node.living, 64, "neighbour")
        neighbours.carve((64,), DType.UINT8)[0][:] = 7
        act = verb(node)

        died = dies_at(step, act)

        audit(node.living)
        assert holds_at(node, neighbours.handle.offset) == [neighbours.handle]
        assert neighbours.bytes_at(0, 64) == b"\x07" * 64
        assert node.living.free(neighbours.handle) is True
        node.empty()
        assert is_empty(node.living)
        audit(node.living)
        if not died:
            break
    assert 1 < step < _MOST_STEPS - 1


def holds_at(node, offset):
    return [info.handle for info in node.living.blocks() if info.handle.offset == offset]


def test_whatever_can_be_worked_out_again_is(node):
    """Also when the dying one has left nonsense in it; the truth is in offsets, states and entries alone."""
    enter(node, 0)
    enter(node, 1, held=True)
    blocks = [take(node.mortal, 64 * n, f"r{n}").handle for n in range(1, 6)]
    node.living.free(blocks.pop(2))
    before = (node.living.stats(), node.living.blocks(), node.cache.entries())
    with node.living.locked() as table:
        for column in (table.refs, table.starts, table.ends):
            column[:] = np.random.default_rng(1).integers(0, 2**31, len(column))
        table.taken[:] = table.taken ^ 1
        for number in (Number.BLOCKS, Number.CACHED_BYTES, Number.WAITING):
            table.numbers[number] = 12345
        table.numbers[Number.DIRTY] = 1

    audit(node.living)

    assert (node.living.stats(), node.living.blocks(), node.cache.entries()) == before


# exceptions of signal handlers, such as Celery's time limit


def nothing_is_left_of(node, kept, other_thread):
    """What is true once the interrupted one has given up everything but ``kept``."""
    assert is_free_for_others(node, other_thread)
    audit(node.living)
    writing = [info for info in node.living.blocks() if info.owner == MORTAL and info.state is HoldState.WRITING]
    assert [info.handle for info in writing] == [kept]
    assert MORTAL not in [owner for _, owner in node.cache.flights()]
    assert MORTAL not in [waiter.owner for waiter in node.living.waiting()]
    node.empty()
    assert is_empty(node.living)


def is_free_for_others(node, other_thread):
    """Whether neither another process nor another thread of the interrupted one has to wait for the lock."""
    return not is_locked(node) and other_thread.submit(can_enter, node.mortal).result()


def is_locked(node):
    """Whether some process holds the pool's lock, as the kernel says."""
    inode = node.living.path.stat().st_ino
    return any(f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines())


def can_enter(pool: Pool) -> bool:
    return pool._map._lock._threads.acquire(blocking=False) and pool._map._lock._threads.release() is None


@every_verb
def test_what_an_exception_interrupts_is_given_up_whole(node, verb, other_thread):
    """Wherever it comes; nothing of the interrupted is left but what it asks to keep."""
    for step in count(0, 1 if LONG else 23):
        node.cache.set_budget(SIZE)
        kept = take(node.mortal, 64, "kept").handle
        act = verb(node)

        interrupted = interrupted_at(step, act)
        node.mortal.abandon_all(keep=[kept])

        nothing_is_left_of(node, kept, other_thread)
        if not interrupted:
            break
    assert 1 < step < _MOST_STEPS


def test_giving_up_does_not_cut_another_threads_step_short(node, other_thread):
    """The kernel's lock is the whole process', and is not to be given back while another thread relies on it."""
    inside, order = threading.Event(), []

    def step():
        with node.mortal.changing():
            inside.set()
            time.sleep(0.05)
            order.append(is_locked(node))

    done = other_thread.submit(step)
    inside.wait(5)
    node.mortal.abandon_all()
    order.append("given up")
    done.result(5)

    assert order == [True, "given up"]


def test_signals_at_random_moments_are_no_different(node, other_thread, no_collector):
    """As they really come: from the kernel, after so many microseconds."""
    chance = random.Random(1)
    hits = 0
    for _ in range(10_000 if LONG else 400):
        node.cache.set_budget(SIZE)
        kept = take(node.mortal, 64, "kept").handle
        act = chance.choice(VERBS)(node)

        hits += interrupted_after(chance.uniform(1e-6, 300e-6), act)
        node.mortal.abandon_all(keep=[kept])

        nothing_is_left_of(node, kept, other_thread)
    assert hits > 10
