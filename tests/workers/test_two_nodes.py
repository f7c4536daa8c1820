"""Janitors of several nodes over one Redis: each looks at what is its own, and takes up what nobody looks at."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from forebay import Prompt
from forebay.task import Kind, TaskBody, seal
from handoff import nodes
from handoff.nodes import SILENT_MS
from handoff.pool import Owner, Pool
from tests.support.node import POOL_BYTES, SECRET
from tests.support.ways import MODEL, NODE
from workers import janitor as module
from workers.janitor import Janitor

pytestmark = pytest.mark.service

SEALED = seal(TaskBody(Kind.GENERATE, Prompt(ids=(1,))).pack(), SECRET)
BOTH = (NODE, "n2")


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Every janitor has been here for long."""
    monkeypatch.setattr(module, "_LISTEN_S", -1.0)


@pytest.fixture
def at(node):
    """Janitors at work on nodes of their own, one after the other; each announces its node before its round."""
    open_ones = []

    def janitor_of(name, *models):
        folder = node.folder / f"of-{name}-{len(open_ones)}"
        folder.mkdir()
        Pool.create(folder / "pool", POOL_BYTES)
        life = Owner(folder, "janitor")
        pool = Pool(folder / "pool", life.id, writable=True)
        open_ones.append((life, pool))
        return Janitor(life.id, name, folder, SECRET, node.way.client, node.way.moves, pool, node.store, models)

    yield janitor_of
    for life, pool in open_ones:
        pool.close()
        life.close()


def rounds(janitors, count=1):
    for _ in range(count):
        for one in janitors:
            nodes.announce(one.redis, one.keys, one.node, "workers", {})
            one.tick()


def ask(node, rid, where):
    """A queued request on that node."""
    node.way.accept(rid, f"token of {rid}")
    body, token, message = SEALED, f"token of {rid}", f"message of {rid}".encode()
    assert node.way.do(node.way.moves.enqueue(rid, token, body, where, "text", message)).ok


def lose(node, where):
    """All messages of a node vanish, long after they were queued."""
    node.way.client.delete(node.way.moves.keys.queue(where, "text"))
    for rid in node.way.watched(where):
        node.way.age(rid)


@contextmanager
def silent(node, name):
    """A node that has announced itself, and then no more."""
    nodes.announce(node.way.client, node.way.moves.keys, name, "workers", {})
    seconds, _ = node.way.client.time()
    node.way.client.zadd(node.way.moves.keys.nodes, {name: seconds * 1000 - SILENT_MS - 1000})
    yield


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("models", [(MODEL,), ("another",)])
def test_lost_messages_of_both_nodes_are_sent_again_whoever_looks_first(node, at, first, models):
    """A node's requests are looked at by its own janitor, also beside one that does not even serve the model."""
    janitors = [at(NODE, MODEL), at("n2", MODEL), at("n3", *models)]
    for number in range(8):
        ask(node, f"r{number}", BOTH[number % 2])
    for name in BOTH:
        lose(node, name)

    rounds(janitors[first:] + janitors[:first])

    assert [len(node.way.messages(name)) for name in BOTH] == [4, 4]
    assert {node.way.record(f"r{number}").node for number in (0, 2, 4, 6)} == {NODE}


def test_a_gone_nodes_requests_are_taken_up_though_the_first_to_look_lacks_the_model(node, at):
    """Under the next attempt. He looks as often as he likes."""
    blind, able = at("n2", "another"), at("n3", MODEL)
    for number in range(4):
        ask(node, f"r{number}", "gone")
        node.way.make_due(f"r{number}")
    with silent(node, "gone"):
        rounds([blind], 5)
        assert {node.way.record(f"r{number}").node for number in range(4)} == {"gone"}

        rounds([blind, able])

    taken = [node.way.record(f"r{number}") for number in range(4)]
    assert {(one.node, one.attempt, one.state) for one in taken} == {("n3", 2, "queued")}
    assert len(node.way.messages("n3")) == 4


def test_a_living_nodes_request_is_not_taken_from_it(node, at):
    """Its own janitor has looked lately, and it is neither lost nor late."""
    ask(node, "r1", "n2")
    rounds([at("n2", MODEL), at(NODE, MODEL)])
    node.way.age("r1")

    rounds([at(NODE, MODEL)])

    assert (node.way.record().node, node.way.record().attempt) == ("n2", 1)


def test_the_workers_of_a_node_are_gone_and_its_scheduler_lives(node, at):
    """What waited for them is done elsewhere; what is parked is the scheduler's."""
    for rid in ("queued", "begun", "parked"):
        ask(node, rid, NODE)
    for rid in ("begun", "parked"):
        node.way.begin(rid, f"token of {rid}")
    node.way.park("parked")
    for rid in ("queued", "begun", "parked"):
        node.way.make_due(rid)
    nodes.announce(node.way.client, node.way.moves.keys, NODE, "engine:toy", {})

    rounds([at("n2", MODEL)])

    found = {rid: node.way.record(rid) for rid in ("queued", "begun", "parked")}
    assert {rid: (one.state, one.node, one.attempt) for rid, one in found.items()} == {
        "queued": ("queued", "n2", 2),
        "begun": ("queued", "n2", 2),
        "parked": ("parked", NODE, 1),
    }


def test_one_that_has_just_come_back_calls_nobody_silent(node, at, monkeypatch):
    """After an outage of Redis everybody has been silent, and the first one back would take everything."""
    monkeypatch.setattr(module, "_LISTEN_S", 15.0)
    clock = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    newcomer = at("n2", MODEL)
    ask(node, "r1", "gone")
    node.way.make_due("r1")
    with silent(node, "gone"):
        for _ in range(15):
            rounds([newcomer])
            clock[0] += 1.0
        clock[0] += 10.0  # it hears nothing for a while
        for _ in range(15):
            rounds([newcomer])
            clock[0] += 1.0
        assert node.way.record().node == "gone"

        rounds([newcomer])

    assert node.way.record().node == "n2"


def test_a_deadline_is_kept_by_any_janitor(node, at):
    """Whoever has the request, and whatever models he serves."""
    ask(node, "r1", NODE)
    node.way.accept("r2", "t2")
    for rid in ("r1", "r2"):
        node.way.pass_deadline(rid)

    rounds([at("n3", "another")])

    assert [node.way.state(rid) for rid in ("r1", "r2")] == ["expired", "expired"]
