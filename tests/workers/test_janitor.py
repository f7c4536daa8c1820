"""The janitor: it frees what is provably nobody's, replays what stands still, and touches nothing else."""

import base64
import json
import os

import msgpack
import pytest

from forebay import Prompt
from forebay.errors import Problem
from forebay.task import Kind, Task, TaskBody, seal
from handoff.connection import connect
from handoff.moves import End, Fence
from handoff.pool import Owner, Pool, is_alive
from handoff.pool.table import HoldState
from handoff.quarantine import entries
from tests.support.media import plain_png
from tests.support.neighbour import neighbour
from tests.support.node import SECRET
from tests.support.ways import MODEL, NODE
from workers import janitor as module
from workers import sweep
from workers.janitor import Janitor

pytestmark = pytest.mark.service

PNG = plain_png(2, 3)
BODY = TaskBody(Kind.GENERATE, Prompt(ids=(1,))).pack()
SEALED = seal(BODY, SECRET)


@pytest.fixture
def janitor(node):
    return make_janitor(node, "janitor-1")


def make_janitor(node, me):
    return Janitor(
        me=me,
        node=NODE,
        folder=node.folder,
        secret=SECRET,
        redis=node.way.client,
        moves=node.way.moves,
        pool=node.pool,
        store=node.store,
        models=[MODEL],
    )


@pytest.fixture
def no_grace(monkeypatch):
    """Every block is older than the grace period."""
    monkeypatch.setattr(sweep, "_GRACE_S", -1.0)


def states(node):
    return {info.rid: info.state.name for info in node.pool.blocks()}


def newest_task(node, lane="text"):
    entry = json.loads(node.way.messages(lane=lane)[0])
    [[message], _, _] = msgpack.unpackb(base64.b64decode(entry["body"]))
    return Task.unpack(message, SECRET)


# blocks


def test_a_dead_writers_block_is_freed_and_a_living_ones_is_not(node, janitor):
    """Told by their lock files; SIGKILL in the middle of a write leaves one that nobody holds."""
    with neighbour(node.folder) as dead, neighbour(node.folder) as living:
        dead.tell("write", 1, 1000, "of the dead")
        living.tell("write", 2, 1000, "of the living")
        dead.kill()

        janitor.tick()

        assert states(node) == {"of the living": "WRITING"}
        assert not (node.folder / f"owner-{dead.owner}").exists()
        assert is_alive(node.folder, living.owner)


def test_killed_between_parking_block_and_ticket(node, janitor, no_grace):
    """The block says parked, the record says processing by a dead worker: the request is replayed, the block freed."""
    with neighbour(node.folder) as worker:
        node.task(node.reference(PNG))
        node.way.begin(owner=worker.owner)
        worker.tell("park", worker.tell("write", 1, 1000, "r1"))
        worker.kill()
        node.way.make_due()

        janitor.tick()

    assert node.pool.blocks() == []
    record = node.way.record()
    assert (record.state, record.attempt) == ("queued", 2)


def test_a_block_is_freed_as_soon_as_its_worker_is_known_to_be_dead(node, janitor, no_grace):
    """Also before it is time to look at its request."""
    with neighbour(node.folder) as worker:
        node.task(node.reference(PNG))
        node.way.begin(owner=worker.owner)
        worker.tell("park", worker.tell("write", 1, 1000, "r1"))
        worker.kill()

        janitor.tick()

    assert node.pool.blocks() == []
    assert node.way.state() == "processing"


def test_a_worker_between_parking_block_and_ticket_is_not_robbed(node, janitor, no_grace):
    """It lives, and the record says that it is at work."""
    with neighbour(node.folder) as worker:
        node.task(node.reference(PNG))
        node.way.begin(owner=worker.owner)
        worker.tell("park", worker.tell("write", 1, 1000, "r1"))

        janitor.tick()

        assert states(node) == {"r1": "PARKED"}


def test_a_parked_block_lives_as_long_as_its_record_leads_to_it(node, janitor, no_grace):
    """Parked and waiting, and then without a record."""
    node.driver().run(node.task(node.reference(PNG)))
    janitor.tick()
    assert states(node) == {"r1": "PARKED"}

    node.way.client.delete(node.way.moves.keys.record("r1"))
    janitor.tick()
    assert states(node) == {}


def test_a_block_of_a_former_attempt_is_an_orphan(node, janitor, no_grace):
    """The record leads to another one by now."""
    node.driver().run(node.task(node.reference(PNG)))
    node.way.client.hset(node.way.moves.keys.record("r1"), "attempt", 2)

    janitor.tick()

    assert states(node) == {}


def test_a_fresh_block_is_given_the_time_to_be_spoken_for(node, janitor):
    """Between a block and the record that speaks of it there is one call to Redis."""
    with neighbour(node.folder) as worker:
        worker.tell("park", worker.tell("write", 1, 1000, "unknown"))

        janitor.tick()

        assert states(node) == {"unknown": "PARKED"}


@pytest.mark.parametrize("ended", [True, False])
def test_a_dead_schedulers_block_is_freed_only_when_its_request_has_ended(node, janitor, no_grace, ended):
    """Otherwise its lease lapses, and the next scheduler reads the very same block."""
    node.driver().run(node.task(node.reference(PNG)))
    [claimed] = node.way.claim("c1")
    handle = node.pool.blocks()[0].handle
    with neighbour(node.folder, "scheduler") as scheduler:
        scheduler.tell("read", [handle.pool, handle.slot, handle.offset, handle.length, handle.generation], 4)
        scheduler.kill()
    if ended:
        node.way.do(node.way.moves.finish("r1", Fence.claim(claimed.claim), End.done({})))

    janitor.tick()

    assert states(node) == ({} if ended else {"r1": "READING"})


def test_a_living_readers_block_is_its_own(node, janitor, no_grace):
    """Even when the request has ended: the engine may look at it yet."""
    node.driver().run(node.task(node.reference(PNG)))
    node.way.claim("c1")
    life = Owner(node.folder, "scheduler")
    Pool(node.folder / "pool", life.id, writable=False).take(node.pool.blocks()[0].handle)
    node.way.cancel()

    janitor.tick()

    assert states(node) == {"r1": "READING"}
    life.close()
    janitor.tick()
    assert states(node) == {}


def test_a_cancelled_parked_requests_block_is_freed_at_once(node, janitor):
    """Through the purge list, without waiting for any grace; a ticket that is purged twice harms nobody."""
    node.driver().run(node.task(node.reference(PNG)))
    ticket = node.way.raw()["ticket"]
    node.way.cancel()
    node.way.client.lpush(node.way.moves.keys.purge(NODE), ticket)

    janitor.tick()

    assert states(node) == {}
    assert node.way.purged() == []


# requests


def test_a_request_past_its_deadline_expires(node, janitor):
    """And its parked block goes with it."""
    node.driver().run(node.task(node.reference(PNG)))
    node.way.pass_deadline()
    node.way.make_due()

    janitor.tick()

    assert (node.way.state(), node.way.record().problem.status) == ("expired", 504)
    assert states(node) == {}


def test_a_dead_owners_request_is_queued_again(node, janitor):
    """A new signed message for the next attempt, and a worker takes it."""
    node.way.accept()
    node.way.enqueue(body=SEALED)
    node.way.begin(owner="worker-dead")
    node.way.make_due()

    janitor.tick()

    task = newest_task(node)
    assert (task.rid, task.attempt, task.token, task.body) == ("r1", 2, "t1", BODY)
    node.driver().run(task.pack(SECRET))
    assert (node.way.state(), node.way.record().attempt) == ("parked", 2)


def test_a_request_that_was_looked_at_is_not_looked_at_again_at_once(node, janitor):
    """One replay for one death."""
    node.way.accept()
    node.way.enqueue(body=SEALED)
    node.way.begin(owner="worker-dead")
    node.way.make_due()

    janitor.tick()
    janitor.tick()

    assert len(node.way.messages()) == 2  # the first one, which nobody took off the list here, and the replay
    assert node.way.record().attempt == 2


def test_a_request_that_killed_three_workers_is_abandoned(node, janitor):
    """Without another message."""
    node.way.queued()
    node.way.begin(owner="dead-1")
    node.way.begin(owner="dead-2", dead="dead-1")
    node.way.begin(owner="dead-3", dead="dead-2")
    node.way.make_due()

    janitor.tick()

    assert (node.way.state(), node.way.record().problem.code) == ("failed", "abandoned")
    assert len(node.way.messages()) == 1


def test_a_living_workers_request_is_left_alone(node, janitor):
    """However often it is looked at."""
    driver = node.driver()
    node.way.queued()
    node.way.begin(owner=driver.owner)
    before = node.way.raw()

    for _ in range(3):
        node.way.make_due()
        janitor.tick()

    assert node.way.raw() == before


def test_a_lapsed_lease_is_noticed(node, janitor):
    """The ticket is parked again for the next scheduler."""
    node.driver().run(node.task(node.reference(PNG)))
    node.way.claim("c1")
    node.way.let_lapse()

    janitor.tick()

    assert (node.way.state(), node.way.record().lapses) == ("parked", 1)
    assert [one.rid for one in node.way.claim("c2", "scheduler-2")] == ["r1"]


def test_a_ticket_over_which_three_schedulers_have_died_is_abandoned(node, janitor):
    """Its caller is told, its media are named in quarantine, and no fourth scheduler gets it."""
    ref = node.reference(PNG)
    node.driver().run(node.task(ref))
    for number in (1, 2, 3):
        assert [one.rid for one in node.way.claim(f"c{number}", f"scheduler-{number}")] == ["r1"]
        node.way.let_lapse()
        janitor.tick()

    problem = node.way.record().problem
    assert (node.way.state(), problem.code, problem.status) == ("failed", "abandoned", 500)
    assert problem.message == "abandoned after 3 attempts: each lost its worker or its scheduler"
    assert node.way.claim("c4", "scheduler-4") == []
    [entry] = entries(node.way.client, node.way.moves.keys)
    assert (entry.kind, entry.reason, entry.digest, entry.rid) == ("media", "abandoned", ref.digest, "r1")
    assert entry.detail == problem.message


def test_media_of_what_killed_schedulers_are_named_and_not_refused(node, janitor):
    """All that a dead scheduler had, it had together, and it may have died of itself: a suspect is not guilty."""
    ref = node.reference(PNG)
    for rid in ("r1", "r2"):
        node.driver().run(node.task(ref, rid=rid, token=f"token of {rid}"))
    for number in (1, 2, 3):
        node.way.claim(f"c{number}")
        for rid in ("r1", "r2"):
            node.way.let_lapse(rid)
        janitor.tick()
    assert len(entries(node.way.client, node.way.moves.keys)) == 2

    node.driver().run(node.task(ref, rid="r3", token="t3"))

    assert [node.way.state(rid) for rid in ("r1", "r2", "r3")] == ["failed", "failed", "parked"]


@pytest.mark.parametrize("body", [seal(b"unreadable", SECRET), seal(BODY, b"another secret of 16"), BODY, b""])
def test_a_body_that_is_not_ours_ends_its_request_and_holds_up_no_other(node, janitor, body):
    """Another release wrote it, or somebody who only has Redis' password: it is never signed anew."""
    for rid, own in (("r1", body), ("r2", SEALED)):
        node.way.accept(rid, f"token of {rid}")
        node.way.enqueue(rid, f"token of {rid}", body=own)
        node.way.begin(rid, f"token of {rid}", owner="worker-dead")
        node.way.make_due(rid)

    janitor.tick()

    assert (node.way.state("r1"), node.way.record("r1").problem.code) == ("failed", "internal_error")
    assert (node.way.state("r2"), node.way.record("r2").attempt) == ("queued", 2)


# turns


def test_one_janitor_sweeps_a_node_at_a_time(node, janitor):
    """The second comes when the first is silent; and the first may go on."""
    first, second = Owner(node.folder, "janitor"), Owner(node.folder, "janitor")
    turn = node.way.moves.keys.janitor(NODE)
    make_janitor(node, first.id).tick()
    node.way.queued()
    node.way.pass_deadline()
    node.way.make_due()

    make_janitor(node, second.id).tick()
    assert node.way.state() == "queued"
    assert 0 < node.way.client.pttl(turn) <= 10_000

    node.way.client.delete(turn)  # as if the first had been silent for ten seconds
    make_janitor(node, second.id).tick()
    assert (node.way.state(), node.way.client.get(turn)) == ("expired", second.id.encode())
    first.close()
    second.close()


def test_the_turn_of_a_dead_janitor_is_taken_at_once(node):
    """Its worker died with it: what they held is not to wait until the turn has run out."""
    first, second = Owner(node.folder, "janitor"), Owner(node.folder, "janitor")
    make_janitor(node, first.id).tick()
    node.way.queued()
    node.way.pass_deadline()
    node.way.make_due()
    first.close()

    make_janitor(node, second.id).tick()

    assert node.way.state() == "expired"
    assert node.way.client.get(node.way.moves.keys.janitor(NODE)) == second.id.encode()
    second.close()


def test_a_janitor_keeps_its_turn_while_it_comes_back(node, janitor):
    """Every tick renews it."""
    turn = node.way.moves.keys.janitor(NODE)
    janitor.tick()
    node.way.client.pexpire(turn, 500)

    janitor.tick()

    assert node.way.client.pttl(turn) > 5_000


def test_media_that_have_outlived_their_time_are_swept_now_and_then(node, janitor, monkeypatch):
    """Not with every tick: a spool may hold many files."""
    node.store.put(node.reference(PNG).digest, PNG)
    [path] = node.store.folder.iterdir()
    os.utime(path, (1, 1))

    janitor.tick()
    assert path.exists()

    monkeypatch.setattr(module, "_SPOOL_EVERY_S", -1.0)
    janitor.tick()
    assert not path.exists()


def test_a_tick_with_nothing_to_do_changes_nothing(node, janitor):
    """It runs every second, for ever."""
    node.driver().run(node.task(node.reference(PNG)))
    before, blocks = node.way.raw(), node.pool.blocks()

    for _ in range(3):
        janitor.tick()

    assert (node.way.raw(), node.pool.blocks()) == (before, blocks)
    assert blocks[0].state is HoldState.PARKED


def test_without_redis_nothing_is_freed(node, janitor, no_grace):
    """Whoever cannot ask whether a block is spoken for must not decide that it is not."""
    from forebay import Failed

    node.driver().run(node.task(node.reference(PNG)))
    janitor.redis = connect("redis://127.0.0.1:1", "nobody")

    with pytest.raises(Failed, match="cannot be reached"):
        janitor.tick()

    assert states(node) == {"r1": "PARKED"}


def test_an_end_by_another_between_look_and_act_stands(node, janitor):
    """The janitor decides on what it saw, and the record has the last word."""
    node.way.processing()
    seen = node.way.record()
    node.way.do(node.way.moves.finish("r1", Fence.owner(1, "worker-1"), End.of(Problem("x", "y", 400))))

    janitor._act(seen, module.Verdict.EXPIRE)
    janitor._act(seen, module.Verdict.ABANDON)

    assert (node.way.state(), node.way.record().problem.code) == ("rejected", "x")
