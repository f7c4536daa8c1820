"""What is provably nobody's: each kind of thing is found when its holder is dead, and never before."""

from __future__ import annotations

import os

import pytest

from handoff.moves import End, Fence
from handoff.pool import FeatureCache, HoldState, Owner, Pool
from tests.support.media import plain_png
from tests.support.neighbour import neighbour
from tests.support.steps import dies_at
from workers import sweep as module
from workers.sweep import Sweep

pytestmark = pytest.mark.service

PNG = plain_png(2, 3)
KEY = "ab" * 32


@pytest.fixture
def sweep(node):
    return Sweep(node.folder, node.pool, node.way.client, node.way.moves.keys)


@pytest.fixture
def no_grace(monkeypatch):
    """Every block is older than the grace period."""
    monkeypatch.setattr(module, "_GRACE_S", -1.0)


def found(sweep):
    return sorted((finding.what, finding.name, finding.why) for finding in sweep.findings())


def state(sweep):
    """Everything that a sweep looks at."""
    pool, folder = sweep.pool, sweep.folder
    return pool.blocks(), pool.waiting(), FeatureCache(pool).flights(), sorted(path.name for path in folder.iterdir())


def parked(node):
    """A request that waits for a scheduler; the one hold on its block."""
    node.driver().run(node.task(node.reference(PNG)))
    [info] = node.pool.blocks()
    assert info.state is HoldState.PARKED
    return info


def read_by(node, scheduler):
    """The request is claimed, and its block read by another process."""
    handle = parked(node).handle
    [claimed] = node.way.claim("c1")
    scheduler.tell("read", [handle.pool, handle.slot, handle.offset, handle.length, handle.generation], 4)
    return claimed


def end(node, claimed):
    assert node.way.do(node.way.moves.finish("r1", Fence.claim(claimed.claim), End.done({}))).ok


# blocks


def test_what_a_dead_writer_holds_is_found_and_what_a_living_one_holds_is_not(node, sweep):
    """Whether it was made or found in the cache, and however young it is."""
    with neighbour(node.folder) as writer:
        writer.tell("write", 1, 1000, "r1")
        assert found(sweep) == []

        writer.kill()

        assert found(sweep) == [
            ("block", "slot 0, writing, of request r1", f"its writer {writer.owner} has died"),
            ("lock file", writer.owner, "nobody holds its lock"),
        ]
        [block, _] = sweep.findings()
        assert block.size_bytes == 1024


def test_another_ranks_hold_goes_with_that_rank(node, sweep):
    """Not with the leader, nor with the request: it may be in the middle of a step."""
    handle = parked(node).handle
    leader = Pool(node.folder / "pool", "leader", writable=False)
    leader.take(handle)
    rank = Owner.named(node.folder, "leader.1")
    leader.share([handle], [rank.id])
    assert leader.free(handle)
    node.way.cancel()
    assert found(sweep) == []

    rank.close()

    assert found(sweep) == [("block", "slot 1, shared, of request r1", "its reader leader.1 has died")]
    leader.close()


def test_a_parked_hold_is_found_once_no_live_request_leads_to_it(node, sweep, no_grace):
    """As long as one does, it waits for a scheduler."""
    parked(node)
    assert found(sweep) == []

    node.way.client.delete(node.way.moves.keys.record("r1"))

    assert found(sweep) == [("block", "slot 0, parked, of request r1", "no live request leads to it")]


def test_a_young_hold_is_given_the_time_to_be_spoken_for(node, sweep):
    """Between a block and the record that leads to it there is a call to Redis."""
    parked(node)
    node.way.client.delete(node.way.moves.keys.record("r1"))

    assert found(sweep) == []


def test_what_a_dead_reader_reads_is_left_for_the_next_one(node, sweep, no_grace):
    """Its lease will lapse, and the next scheduler reads the very same block; unless the request has ended."""
    with neighbour(node.folder, "scheduler") as scheduler:
        claimed = read_by(node, scheduler)
        scheduler.kill()
        assert found(sweep) == [("lock file", scheduler.owner, "nobody holds its lock")]

        end(node, claimed)

        assert ("block", "slot 0, reading, of request r1", "no live request leads to it") in found(sweep)


def test_what_a_living_reader_reads_is_its_own(node, sweep, no_grace):
    """Also when the request has ended: the engine may look at it yet."""
    with neighbour(node.folder, "scheduler") as scheduler:
        end(node, read_by(node, scheduler))

        assert found(sweep) == []


# the line, and the cache


def test_a_dead_waiter_is_found_and_a_living_one_is_not(node, sweep):
    """Those behind it pass it over by themselves; it still counts as waiting."""
    with neighbour(node.folder) as dead, neighbour(node.folder) as living:
        dead.tell("wait", 1000)
        living.tell("wait", 1000)
        assert found(sweep) == []

        dead.kill()

        assert ("place in line", dead.owner, "it has died") in found(sweep)
        assert len(found(sweep)) == 2  # and its lock file


def test_a_dead_maker_is_found_and_a_living_one_is_not(node, sweep):
    """Whoever waits for the entry takes over; if nobody does, the note that it is made would stay for ever."""
    with neighbour(node.folder) as maker:
        maker.tell("make", KEY)
        assert found(sweep) == []

        maker.kill()

        assert ("cache entry in the making", f"by {maker.owner}", "it has died") in found(sweep)


def test_an_entry_that_nobody_holds_is_no_finding(node, sweep, no_grace):
    """It is there to be found, whoever made it."""
    FeatureCache(node.pool).set_budget(1 << 19)
    driver = node.driver(cached=True)
    driver.run(node.task(node.reference(PNG)))
    for info in node.pool.blocks():
        node.pool.free(info.handle)
    driver.life.close()

    assert (node.pool.stats().entries, found(sweep)) == (1, [])


# files


def test_a_writer_killed_while_it_made_a_pool_leaves_what_it_had_reserved(node, sweep):
    """Gigabytes of shared memory under a name that nobody looks for."""
    assert dies_at(0, lambda: Pool.create(node.folder / "another", 4 << 20))
    [draft] = node.folder.glob(".draft-*")
    assert found(sweep) == []  # it is young
    os.utime(draft, (1, 1))

    [finding] = sweep.findings()

    assert (finding.what, finding.name) == ("draft", draft.name)
    assert finding.size_bytes >= 4 << 20
    assert finding.remove() is True
    assert [path.name for path in node.folder.iterdir()] == ["pool"]


def test_a_living_writers_draft_is_left_alone(node, sweep):
    """However old it is."""
    with neighbour(node.folder) as writer:
        os.utime(writer.tell("draft", "note"), (1, 1))
        assert found(sweep) == []

        writer.kill()

        assert [what for what, _, _ in found(sweep)] == ["draft", "lock file"]


# looking and acting


@pytest.fixture
def remains(node, no_grace):
    """One of each kind."""
    claimed = None
    with neighbour(node.folder) as worker, neighbour(node.folder, "scheduler") as scheduler:
        claimed = read_by(node, scheduler)
        worker.tell("write", 1, 1000, "r2")
        worker.tell("park", worker.tell("write", 1, 1000, "r3"))
        worker.tell("wait", 1000)
        worker.tell("make", KEY)
        os.utime(worker.tell("draft", "note"), (1, 1))
        worker.kill()
        scheduler.kill()
    end(node, claimed)


KINDS = ["block"] * 3 + ["cache entry in the making", "draft"] + ["lock file"] * 2 + ["place in line"]


def test_looking_changes_nothing(sweep, remains):
    """Whoever only wants to know may look as often as he likes."""
    before = state(sweep)

    assert [what for what, _, _ in found(sweep)] == KINDS
    assert [what for what, _, _ in found(sweep)] == KINDS

    assert state(sweep) == before


def test_what_is_removed_is_gone(sweep, remains):
    """Each says that it did it, and the next look finds nothing."""
    findings = list(sweep.findings())

    assert [finding.remove() for finding in findings] == [True] * len(KINDS)

    assert found(sweep) == []
    assert (sweep.pool.blocks(), sweep.pool.waiting(), FeatureCache(sweep.pool).flights()) == ([], [], [])
    assert sweep.pool.stats().counters["orphans"] == 3


def test_whoever_comes_too_late_does_nothing_and_says_so(sweep, remains):
    """Two janitors may look at the same time; and what was freed may be another request's by now."""
    late = list(sweep.findings())
    for finding in sweep.findings():
        finding.remove()
    block = sweep.pool.allocate(1000, "another's", 1)
    sweep.pool.join_line(1000)
    FeatureCache(sweep.pool).seek([bytes.fromhex(KEY)], "another's", 1)
    before = state(sweep)

    assert [finding.remove() for finding in late] == [False] * len(KINDS)

    assert state(sweep) == before
    assert sweep.pool.is_current(block.handle)


def test_a_hold_that_has_changed_hands_since_it_was_seen_is_not_taken_away(node, sweep, no_grace):
    """A scheduler took it up between look and act."""
    handle = parked(node).handle
    record = node.way.client.dump(node.way.moves.keys.record("r1"))
    node.way.client.delete(node.way.moves.keys.record("r1"))
    [seen] = sweep.findings()
    node.way.client.restore(node.way.moves.keys.record("r1"), 0, record)

    Pool(node.folder / "pool", "scheduler", writable=False).take(handle)

    assert seen.remove() is False
    assert sweep.pool.is_current(handle)


def test_a_name_that_lives_again_is_not_buried(node, sweep):
    """Ranks choose their names; the lock file that was seen unlocked is another's by now."""
    with neighbour(node.folder) as dead:
        dead.kill()
        [seen] = sweep.findings()
        again = Owner.named(node.folder, dead.owner)

        assert seen.remove() is False
        assert found(sweep) == []
        again.close()


def test_a_lock_file_that_says_what_its_owner_was_at_stays_for_a_while(node, sweep, monkeypatch):
    """The parent of a child that has died asks for it, and may be some seconds late."""
    life = Owner(node.folder, "worker")
    life._mark("sha256:of an item")
    os.close(life._fd)  # as its death does

    assert found(sweep) == []

    monkeypatch.setattr(module, "_MARK_KEPT_S", -1.0)
    assert found(sweep) == [("lock file", life.id, "nobody holds its lock")]
