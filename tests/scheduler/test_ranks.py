"""Several ranks read one request's features: four processes over gloo, any of which may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from forebay import ConfigurationError, Failed, Room
from forebay.ticket import Handle
from handoff.pool import HoldState, Owner, Pool
from scheduler import Intake
from scheduler import ranks as module
from scheduler.ranks import Ranks, Share, Turn, begin_life, reader_of
from tests.support.media import plain_png
from tests.support.node import SECRET, made_node
from tests.support.ways import MODEL, NODE
from workers.sweep import Sweep

pytestmark = pytest.mark.service

COUNT = 4
PNG = plain_png(2, 3, (10, 20, 30))
SUM = "360.0"  # three rows of 20 + 40 + 60


@pytest.fixture
def node(client, moves, shm, tmp_path):
    with made_node(client, moves, shm, tmp_path) as node:
        yield node


@pytest.fixture
def group(node, redis_url, tmp_path):
    """Starts the ranks; none outlives the test."""
    started = []
    env = {
        **os.environ,
        "REDIS_URL": redis_url,
        "FOREBAY_SECRET": SECRET.decode(),
        "FOREBAY_DEPLOYMENT": node.way.moves.keys.prefix.removesuffix(":"),
        "FOREBAY_NODE": NODE,
        "FOREBAY_RUN_DIR": str(node.folder),
        "FOREBAY_MODEL": MODEL,
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }

    def start(dying=None):
        for rank in range(COUNT):
            argv = [sys.executable, "-m", "tests.support.rank", str(rank), str(COUNT), str(tmp_path / "rendezvous")]
            argv += ["dies"] if rank == dying else []
            pipe = subprocess.PIPE
            started.append(subprocess.Popen(argv, env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        for process in started:
            assert process.stdout.readline() == "open\n", process.stderr.read()
        return started

    yield start
    for process in started:
        process.kill()
        process.communicate()


def park(node):
    node.driver().run(node.task(node.reference(PNG)))
    assert node.way.state() in ("parked", "admitted")  # ranks may be waiting for it


def release(process):
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "released\n"


def holds(node):
    return sorted(info.state.name for info in node.pool.blocks())


def sweep(node):
    look = Sweep(node.folder, node.pool, node.way.client, node.way.moves.keys)
    return [finding for finding in look.findings() if finding.remove()]


def test_every_rank_reads_the_same_block_and_the_last_release_frees_it(node, group):
    """Rank 0 claims; nobody is too late, in whichever order they release."""
    ranks = group()
    park(node)

    assert [process.stdout.readline().strip() for process in ranks] == [SUM] * COUNT
    assert holds(node) == ["READING", "SHARED", "SHARED", "SHARED"]
    assert node.pool.stats().blocks == 1

    for left, rank in zip((3, 2, 1, 0), (0, 2, 1, 3), strict=True):
        release(ranks[rank])
        assert len(node.pool.blocks()) == left
    assert node.pool.stats().used_bytes == 0
    assert [process.wait(30) for process in ranks] == [0] * COUNT


def test_a_rank_that_is_killed_between_claim_and_map_keeps_nothing(node, group):
    """The others read on undisturbed; the janitor frees the dead one's hold, and the last release the block."""
    ranks = group(dying=2)
    park(node)

    living = [process for number, process in enumerate(ranks) if number != 2]
    assert [process.stdout.readline().strip() for process in living] == [SUM] * 3
    assert ranks[2].wait(30) == -signal.SIGKILL
    [finding] = [one for one in sweep(node) if one.what == "block"]
    assert "has died" in finding.why
    for left, process in zip((2, 1, 0), living, strict=True):
        assert len(node.pool.blocks()) == left + 1
        release(process)
        assert len(node.pool.blocks()) == left


def test_a_group_that_is_killed_leaves_the_request_to_the_next(node, group):
    """Its lease lapses; the features lie where they lay."""
    ranks = group()
    park(node)
    assert [process.stdout.readline().strip() for process in ranks] == [SUM] * COUNT

    for process in ranks:
        process.kill()
        process.wait(30)
    sweep(node)

    [info] = node.pool.blocks()  # the ticket's own: a live request leads to it
    assert info.state is HoldState.READING
    node.way.let_lapse("r1")
    assert node.way.do(node.way.moves.lapse(NODE, MODEL)) == ["r1"]
    assert [one.rid for one in node.way.claim()] == ["r1"]
    assert node.pool.take(info.handle).handle == info.handle


@pytest.fixture
def pair(node, client, moves):
    """Two ranks in one process; what rank 0 says is what rank 1 hears."""
    said = []
    life = Owner(node.folder, "scheduler")
    other = Owner.named(node.folder, reader_of(life.id, 1))
    ways = (lambda data: said.append(data) or data, lambda _: said[-1])
    pools = [Pool(node.folder / "pool", one.id, writable=False) for one in (life, other)]
    yield [
        Intake(client, moves, pool, NODE, MODEL, Ranks(2, rank, way))
        for rank, (pool, way) in enumerate(zip(pools, ways, strict=True))
    ]
    life.close()
    other.close()


def test_ranks_stay_in_step_when_leases_cannot_be_extended(node, pair, monkeypatch):
    """What was claimed is everybody's; Redis may be back with the next poll."""
    zero, one = pair
    park(node)

    def fails(self):
        raise Failed("redis_unavailable", "away", status=503)

    monkeypatch.setattr(Intake, "keep", fails)
    zero._kept_at = float("-inf")
    taken = [intake.poll(Room(1, 1000))[0] for intake in (zero, one)]

    assert [[each.rid for each in own] for own in taken] == [["r1"], ["r1"]]


def test_only_the_leading_rank_waits_on_redis(pair):
    """There is one token to be woken by; the others wait for its word."""
    _, one = pair
    began = time.monotonic()

    one.wait()

    assert time.monotonic() - began < 0.5


def test_a_rank_outside_its_group_is_refused():
    """With the numbers that there are."""
    with pytest.raises(ConfigurationError, match="rank 4 of 4; ranks count from 0 to 3"):
        Ranks(4, 4, lambda data: data)


def test_a_rank_that_does_not_come_is_named(shm, monkeypatch):
    """Nothing is claimed for one who may never read it."""
    monkeypatch.setattr(module, "_COME_WITHIN_S", 0.05)
    told = []

    def broadcast(data):
        told.append(data)
        Owner.named(shm, reader_of(data.decode(), 1))
        return data

    began = time.monotonic()
    with pytest.raises(ConfigurationError, match="rank 2 of 3 has not come within"):
        begin_life(shm, Ranks(3, 0, broadcast))
    assert told
    assert time.monotonic() - began < 10


def test_two_may_not_live_under_one_name(shm):
    """Else one's death would not be seen."""
    life = Owner.named(shm, "scheduler-1.1")

    with pytest.raises(ConfigurationError, match=r"scheduler-1\.1 lives in"):
        Owner.named(shm, "scheduler-1.1")

    life.close()
    Owner.named(shm, "scheduler-1.1").close()


def test_what_rank_0_tells_survives_the_way():
    """Claims, tickets, handles by rank, and what is lost."""
    handle = Handle("p", 1, 64, 128, 7)
    turn = Turn([Share("c", b"ticket", [[handle], [handle, handle]])], ["r9"])

    assert Turn.unpack(turn.pack()) == turn
