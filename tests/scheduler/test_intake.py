"""The face for engines: poll, map without a copy, renew, release."""

import time

import numpy as np
import pytest

from forebay import DType, Room, Span
from forebay.ticket import Ticket
from handoff.pool import Pool
from handoff.pool.table import HoldState
from scheduler import Intake
from scheduler.intake import ANY_SIZE
from tests.support.media import plain_png
from tests.support.node import made_node
from tests.support.ways import MODEL, NODE

pytestmark = pytest.mark.service

PNG = plain_png(2, 3, (10, 20, 30))
ROOM = Room(10, 1000)


@pytest.fixture
def node(client, moves, shm, tmp_path):
    with made_node(client, moves, shm, tmp_path) as node:
        yield node


@pytest.fixture
def intake(node):
    pool = Pool(node.folder / "pool", "scheduler-1", writable=False)
    yield Intake(node.way.client, node.way.moves, pool, NODE, MODEL)
    pool.close()


def parked(node, rid="r1", **body):
    node.driver().run(node.task(node.reference(PNG), rid=rid, token=f"token of {rid}", **body))


def take(intake):
    [taken], gone = intake.poll(ROOM)
    assert gone == []
    return taken


def test_a_parked_request_is_taken_with_its_features_mapped(node, intake):
    """Ids, positions, features and sampling, as the worker left them; readable and not writable."""
    parked(node, sampling={"max_new_tokens": 3})

    taken = take(intake)

    admission = taken.admission
    assert (admission.rid, admission.max_new_tokens) == ("r1", 3)
    assert admission.input_ids.tolist() == [1, 7, 7, 7]
    assert admission.positions.mrope.tolist() == [[0, 1, 2, 3]] * 3
    [item] = admission.items
    assert item.array.tolist() == [[20, 40, 60]] * 3
    assert (item.dtype, item.spans, item.model_specific) == (DType.FLOAT32, (Span(1, 3),), {"rows": 3})
    assert not item.array.flags.writeable
    assert node.way.state() == "admitted"
    [info] = node.pool.blocks()
    assert (info.state, info.reader) == (HoldState.READING, intake.scheduler)


def test_no_byte_is_copied_on_the_way(node, intake):
    """Every array lies in the pool's own mapping."""
    parked(node)

    taken = take(intake)

    [block] = taken.blocks
    inside = range(block.address, block.address + block.handle.length)
    admission = taken.admission
    for array in (admission.input_ids, admission.positions.mrope, admission.items[0].array):
        assert array.__array_interface__["data"][0] in inside


def test_releasing_frees_the_features(node, intake):
    """And nobody needs them any more; twice is once."""
    parked(node)
    taken = take(intake)

    intake.release(taken)
    intake.release(taken)

    assert (node.pool.blocks(), intake.held, taken.admission) == ([], {}, None)


def test_a_kept_array_keeps_its_block_and_nothing_crashes(node, intake, caplog):
    """Until it goes: then the next poll gives the block back, even one that has room for nothing."""
    parked(node)
    taken = take(intake)
    kept = taken.admission.items[0].array[1:]

    intake.release(taken)

    assert [record.message for record in caplog.records] == ["features still referenced"]
    assert kept.tolist() == [[20, 40, 60]] * 2
    assert len(node.pool.blocks()) == 1
    del kept
    intake.poll(Room(0, 0))
    assert node.pool.blocks() == []


def test_room_is_respected(node, intake):
    """None asked for, none taken; and without a round trip."""
    parked(node)

    for room in (Room(0, 1000), Room(10, 0), Room(-1, 5)):
        assert intake.poll(room) == ([], [])
    assert intake.poll(Room(10, 3)) == ([], [])
    assert [taken.rid for taken in intake.poll(Room(10, 4))[0]] == ["r1"]


def test_any_size_fits_where_any_size_is_asked_for(node, intake):
    """To look at what would never fit."""
    parked(node)

    assert [taken.rid for taken in intake.poll(Room(1, ANY_SIZE))[0]] == ["r1"]


def test_features_that_are_gone_are_told_and_the_others_taken(node, intake):
    """The caller ends or replays them; one that is gone harms no other."""
    parked(node, "r1")
    node.pool.free(node.pool.blocks()[0].handle)
    parked(node, "r2")

    taken, gone = intake.poll(ROOM)

    assert ([one.rid for one in taken], [one.rid for one in gone]) == (["r2"], ["r1"])
    assert list(intake.held) == ["r2"]


@pytest.mark.parametrize("harm", ["garbage", "outside"])
def test_a_ticket_that_cannot_be_read_is_told_like_one_that_is_gone(node, intake, harm):
    """Of another release, or damaged; its block does not stay behind."""
    parked(node)
    key = node.way.moves.keys.record("r1")
    packed = node.way.client.hget(key, "ticket")
    if harm == "outside":
        ticket = Ticket.unpack(packed)
        wrong = type(ticket.ids)(0, 1 << 30, DType.INT64, (4,))
        node.way.client.hset(key, "ticket", Ticket("r1", 1, MODEL, ticket.blocks, wrong).pack())
    else:
        node.way.client.hset(key, "ticket", b"\xc1")

    taken, gone = intake.poll(ROOM)

    assert (taken, [one.rid for one in gone], intake.held) == ([], ["r1"], {})
    assert [info.state.name for info in node.pool.blocks()] == ([] if harm == "outside" else ["PARKED"])


def test_a_text_is_taken_without_a_block(node, intake):
    """Its ids come with the ticket."""
    node.way.queued()
    node.way.begin()
    ticket = Ticket("r1", 1, MODEL, (), np.array([5, 6], "<i8").tobytes())
    node.way.do(node.way.moves.park("r1", 1, "worker-1", ticket.pack(), 2, {}))

    taken = take(intake)

    assert (taken.admission.input_ids.tolist(), taken.admission.items, taken.blocks) == ([5, 6], (), ())
    assert taken.admission.positions is None


def test_renewing_tells_what_is_no_longer_ours(node, intake):
    """Still mapped: the engine may be reading it."""
    parked(node, "r1")
    parked(node, "r2")
    intake.poll(ROOM)
    assert intake.renew() == []

    node.way.cancel("r1")
    [lost] = intake.renew()

    assert (lost.rid, lost.admission is None) == ("r1", False)
    intake.release(lost)
    assert [info.rid for info in node.pool.blocks()] == ["r2"]


def test_nothing_held_needs_no_renewing(intake):
    """And no round trip: this Redis would not answer."""
    intake.redis = None

    assert intake.renew() == []


def test_a_scheduler_that_lost_its_lease_leaves_the_block_to_the_next(node, intake):
    """The next one reads it, and frees it when it is done."""
    parked(node)
    taken = take(intake)
    node.way.let_lapse()
    node.way.do(node.way.moves.lapse(NODE, MODEL))
    successor = Intake(
        node.way.client, node.way.moves, Pool(node.folder / "pool", "scheduler-2", writable=False), NODE, MODEL
    )
    theirs = take(successor)

    [lost] = intake.renew()
    intake.release(lost)

    assert lost is taken
    assert theirs.admission.items[0].array.tolist() == [[20, 40, 60]] * 3
    assert [info.reader for info in node.pool.blocks()] == ["scheduler-2"]
    successor.release(theirs)
    assert node.pool.blocks() == []


def test_waiting_ends_when_something_is_parked(node, intake):
    """At once, not after the second that a wait may last."""
    parked(node)
    began = time.monotonic()

    intake.wait()

    assert time.monotonic() - began < 0.5


def lapse(node):
    """The leases of everything that is admitted end now."""
    for rid in node.way.leased():
        node.way.let_lapse(rid)
    return node.way.do(node.way.moves.lapse(NODE, MODEL))


def test_a_request_that_lapsed_and_came_back_keeps_its_features(node, intake):
    """What lingers of our first look must not give up the hold that our second one reads through."""
    parked(node)
    taken = take(intake)
    kept = taken.admission.items[0].array
    assert lapse(node) == ["r1"]
    [lost] = intake.renew()
    intake.release(lost)

    again = take(intake)
    del kept, taken, lost
    intake.poll(Room(0, 0))
    parked(node, "r2")

    assert again.admission.items[0].array.tolist() == [[20, 40, 60]] * 3
    assert len(node.pool.blocks()) == 2
    intake.release(again)
    assert {info.rid for info in node.pool.blocks()} == {"r2"}


def test_an_array_of_the_first_look_keeps_the_block_too(node, intake):
    """The second is released; somebody still reads through the first."""
    parked(node)
    kept = take(intake).admission.items[0].array
    lapse(node)

    again = take(intake)
    intake.release(again)

    assert kept.tolist() == [[20, 40, 60]] * 3
    assert len(node.pool.blocks()) == 1
    del kept, again
    intake.poll(Room(0, 0))
    assert node.pool.blocks() == []


def test_what_is_superseded_cannot_end_what_came_after_it(node, intake):
    """Releasing it late changes nothing for the one that is held now."""
    parked(node)
    first = take(intake)
    lapse(node)
    again = take(intake)

    intake.release(first)
    parked(node, "r2")

    assert intake.held == {"r1": again}
    assert again.admission.items[0].array.tolist() == [[20, 40, 60]] * 3


def test_a_claim_that_is_carried_out_late_takes_nothing_from_a_later_one(node, intake, monkeypatch):
    """A scheduler is stopped between its claim and its map, for longer than its lease; another reads by then."""
    other = Intake(
        node.way.client, node.way.moves, Pool(node.folder / "pool", "scheduler-2", writable=False), NODE, MODEL
    )
    parked(node)
    second = []

    def stopped_before_it_maps(*arguments):
        monkeypatch.undo()
        lapse(node)
        second.append(take(other))
        return intake._map(*arguments)

    monkeypatch.setattr(Intake, "_map", lambda self, *arguments: stopped_before_it_maps(*arguments))
    taken, gone = intake.poll(ROOM)
    intake.poll(Room(0, 0))
    parked(node, "r2")

    assert (taken, [one.rid for one in gone]) == ([], ["r1"])
    assert second[0].admission.items[0].array.tolist() == [[20, 40, 60]] * 3
    [info] = [info for info in node.pool.blocks() if info.rid == "r1"]
    assert info.reader == "scheduler-2"
    other.release(second[0])
    other.pool.close()
