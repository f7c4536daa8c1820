"""What is looked at, by whom and when: the deadlines of all, a node's own requests, and what nobody looks at."""

import pytest

from handoff.move_replies import LOOKS_AT_ONCE
from handoff.moves import LOG, RECHECK_MS
from handoff.nodes import SILENT_MS, announce
from tests.support.ways import MODEL, NODE, SCHEDULER

pytestmark = pytest.mark.service

LIVE = ["accepted", "queued", "processing", "parked", "admitted"]


def now_ms(client):
    seconds, micros = client.time()
    return seconds * 1000 + micros // 1000


def look(way, node=NODE):
    return way.do(way.moves.look(node, MODEL))[1]


def neglected(way, *models, me="n2"):
    return way.do(way.moves.neglected(me, models or (MODEL,), SILENT_MS))[1]


@pytest.fixture
def nodes(client, keys):
    """Say that nodes live, or have been silent for a while."""

    def say(*names, silent=()):
        for name in (*names, *silent):
            announce(client, keys, name, "workers", {})
        for name in silent:
            client.zadd(keys.nodes, {name: now_ms(client) - SILENT_MS - 1000})

    return say


# expire


@pytest.mark.parametrize("state", LIVE)
def test_a_deadline_ends_a_request_wherever_it_is(way, state):
    """And tells its caller; a parked block goes to the janitor of its node."""
    way.listen("api-1")
    way.to(state, reply_to="api-1")
    way.pass_deadline()

    assert way.do(way.moves.expire()).ended == (("r1", state),)
    assert way.do(way.moves.expire()).ended == ()

    record = way.record()
    assert (record.state, record.problem.code, record.problem.status) == ("expired", "deadline_exceeded", 504)
    assert [event["state"] for event in way.events("api-1") if event["event"] == b"end"] == [b"expired"]
    assert len(way.purged()) == (state == "parked")
    assert (way.live(), way.watched(), way.waiting(), way.leased(), way.in_line()) == ([], [], [], [], [])


def test_a_deadline_ends_nothing_before_its_time(way):
    """However many there are."""
    way.queued()

    expired = way.do(way.moves.expire())

    assert (expired.ended, expired.has_more, way.state()) == ((), False, "queued")


def test_one_step_ends_so_many_and_says_that_there_may_be_more(way):
    """The longest overdue first."""
    for number in range(LOOKS_AT_ONCE + 1):
        way.accept(f"r{number}", f"t{number}", max_live=1000)
        way.pass_deadline(f"r{number}")
    way.client.zadd(way.moves.keys.due, {"r50": 0})

    first, second = way.do(way.moves.expire()), way.do(way.moves.expire())

    assert (len(first.ended), first.has_more, first.ended[0]) == (LOOKS_AT_ONCE, True, ("r50", "accepted"))
    assert (len(second.ended), second.has_more) == (1, False)


def test_a_name_without_a_record_is_forgotten(way, client):
    """Otherwise it would count as a live request for ever."""
    client.zadd(way.moves.keys.due, {"ghost": 1})

    assert way.do(way.moves.expire()).ended == ()
    assert way.live() == []


def test_what_an_earlier_release_has_filed_is_filed_anew(way, client):
    """It kept the time of the next look where the deadline stands now, and no list for the node."""
    way.queued()
    client.zadd(way.moves.keys.due, {"r1": 1})
    client.delete(way.moves.keys.watch(NODE, MODEL))

    assert way.do(way.moves.expire()).ended == ()

    assert client.zscore(way.moves.keys.due, "r1") == way.record().deadline_ms
    assert way.watched() == ["r1"]


# look


def test_a_node_looks_at_what_is_its_own_and_not_twice_at_once(way, client):
    """Each look sets the time of the next; other nodes' and models' are not seen."""
    for rid in ("r1", "r2", "r3", "r4"):
        way.queued(rid, rid)
    way.make_due("r2")
    way.move("r3", "n2")
    way.move("r4", NODE, "another")

    assert (look(way), look(way)) == (["r2"], [])

    assert abs(client.zscore(way.moves.keys.watch(NODE, MODEL), "r2") - now_ms(client) - RECHECK_MS) < 2000
    assert look(way, "n2") == ["r3"]


def test_what_is_elsewhere_or_has_gone_is_looked_at_no_longer(way, client):
    """An earlier release moves and ends requests without a word to the list."""
    way.queued("r1", "t1")
    watched = way.moves.keys.watch(NODE, MODEL)
    client.hset(way.moves.keys.record("r1"), "node", "n2")
    client.zadd(watched, {"r1": 1, "ghost": 1})

    assert look(way) == []
    assert client.zcard(watched) == 0


# neglected


@pytest.mark.parametrize("state", ["queued", "processing", "parked", "admitted"])
def test_a_silent_nodes_requests_are_named_again_and_again(way, client, nodes, state):
    """To whoever serves the model, until somebody takes them up: one who leaves them hides them from nobody."""
    way.to(state)
    way.make_due()
    nodes("n2", silent=[NODE])

    assert [neglected(way) for _ in range(3)] == [["r1"]] * 3
    assert neglected(way, "another") == []
    assert neglected(way, "another", MODEL) == ["r1"]
    assert neglected(way, me=NODE) == []


@pytest.mark.parametrize("state", ["queued", "processing", "parked", "admitted"])
def test_where_schedulers_live_on_alone_only_the_workers_share_is_named(way, client, nodes, state):
    """Nobody looks there; what is parked or admitted is the schedulers', and they are alive."""
    way.to(state)
    nodes(NODE, "n2")
    look(way)
    way.make_due()
    assert neglected(way) == []  # somebody has just looked

    client.hset(way.moves.keys.looked(NODE), MODEL, now_ms(client) - SILENT_MS - 1000)

    assert neglected(way) == (["r1"] if state in ("queued", "processing") else [])
    if state == "admitted":
        way.let_lapse()
        way.make_due()
        assert neglected(way) == ["r1"]  # its scheduler was another than those that live


def test_a_model_that_a_nodes_workers_no_longer_serve_is_neglected_alone(way, client, nodes):
    """Its janitor looks at the others."""
    way.queued("r1", "t1")
    way.queued("r2", "t2")
    way.move("r2", NODE, "dropped")
    way.make_due("r1")
    nodes(NODE, "n2")
    look(way)
    client.hset(way.moves.keys.looked(NODE), "dropped", 1)

    assert neglected(way, MODEL, "dropped") == ["r2"]


def test_an_earlier_releases_node_is_left_alone_while_its_janitor_lives(way, client, nodes):
    """It looks in its own way."""
    way.queued()
    way.make_due()
    nodes(NODE, "n2")
    client.set(way.moves.keys.janitor(NODE), "janitor", px=10_000)
    assert neglected(way) == []

    client.delete(way.moves.keys.janitor(NODE))

    assert neglected(way) == ["r1"]


def test_one_round_names_so_many_and_the_rest_later(way, nodes):
    """What it names, somebody takes up, and the next ones follow."""
    for number in range(LOOKS_AT_ONCE + 5):
        way.queued(f"r{number}", f"t{number}", max_live=1000, reply_to=LOG)
        way.make_due(f"r{number}")
    nodes("n2", silent=[NODE])
    first = neglected(way)

    for rid in first:
        way.cancel(rid)

    assert (len(first), len(neglected(way))) == (LOOKS_AT_ONCE, 5)


def test_what_its_scheduler_has_taken_does_not_hide_what_stands_still(way, client, nodes):
    """However much of it is in front."""
    for number in range(LOOKS_AT_ONCE):
        way.parked(f"r{number}", f"t{number}", max_live=1000)
        way.make_due(f"r{number}")
    way.queued("lost", "t", max_live=1000)
    client.zadd(way.moves.keys.watch(NODE, MODEL), {"lost": 2})
    nodes(NODE, "n2")

    assert [neglected(way), neglected(way)] == [[], ["lost"]]
    assert len(way.claim(most=1000, scheduler=SCHEDULER, tokens=1 << 30)) == LOOKS_AT_ONCE
