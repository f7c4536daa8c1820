"""What becomes of the messages of dead workers: they go back, but what kills whoever takes it does not for ever."""

from __future__ import annotations

import pytest

from forebay.states import State
from handoff import quarantine
from handoff.envelope import Label, envelope
from handoff.keys import LANES, queue_name
from handoff.pool import Owner
from handoff.scripts import perform
from handoff.slot import MOST_DEATHS, Slot
from tests.support.media import plain_png
from tests.support.ways import MODEL, NODE
from tests.workers.test_janitor import make_janitor

pytestmark = pytest.mark.service

PNG = plain_png(2, 3)


def slot(node, life: str) -> Slot:
    return Slot(node.way.moves.keys, NODE, life)


def take_and_die(node, life: str) -> None:
    """A worker's parent takes a message and is gone before any child begins."""
    assert perform(node.way.client, slot(node, life).take(LANES)) is not None


def queue(node, *media) -> bytes:
    """Accept and queue a request, with the entry that an API writes."""
    message = node.task(*media)
    entry = envelope("r1.1", queue_name(NODE, "text"), message, Label.of("r1", 1, MODEL, len(media), 0))
    queue_again(node, entry)
    return entry


def queue_again(node, entry: bytes) -> None:
    """This entry, and no other."""
    name = node.way.moves.keys.queue(NODE, "text")
    node.way.client.delete(name)
    node.way.client.lpush(name, entry)


def backlog(node) -> int:
    return node.way.client.llen(node.way.moves.keys.queue(NODE, "text"))


def test_what_its_takers_die_over_goes_back_so_often_and_no_more(node):
    """The request ends, its media and the message are in quarantine, and no worker dies of it any more."""
    reference = node.reference(PNG)
    queue(node, reference)
    janitor = make_janitor(node, "janitor-1")
    for life in range(MOST_DEATHS):
        take_and_die(node, f"dead-{life}")
        janitor.tick()
        assert (backlog(node), node.way.state()) == (1, "queued")
    take_and_die(node, "the last")
    janitor.tick()

    assert (backlog(node), node.way.state()) == (0, "failed")
    problem = node.way.record().problem
    assert (problem.code, problem.status) == ("abandoned", 500)
    assert problem.message == "abandoned after 6 deliveries: each ended with the death of its worker"
    found = quarantine.entries(node.way.client, node.way.moves.keys)
    assert {(entry.kind, entry.reason, entry.rid) for entry in found} == {
        ("message", "deadly", "r1"),
        ("media", "abandoned", "r1"),
    }
    assert [entry.digest for entry in found if entry.kind == "media"] == [reference.digest]
    assert not node.way.client.exists(node.way.moves.keys.takers(NODE), slot(node, "the last").list_of("text"))


def test_one_that_dies_before_it_has_put_it_aside_leaves_it_to_the_next(node):
    """Neither message nor request is lost in between."""
    queue(node, node.reference(PNG))
    for _ in range(MOST_DEATHS):
        take_and_die(node, "dead")
        perform(node.way.client, slot(node, "dead").inherit())
    take_and_die(node, "dead")

    estate = perform(node.way.client, slot(node, "dead").inherit())  # and here the janitor dies

    assert [taken.lane for taken in estate.deadly] == ["text"]
    assert (estate.returned, backlog(node), node.way.state()) == (0, 0, "queued")
    make_janitor(node, "janitor-2").tick()
    assert node.way.state() == "failed"


def test_a_message_that_another_worker_has_begun_is_nobodys_end(node):
    """It came twice; the record is with a worker that lives."""
    entry = queue(node, node.reference(PNG))
    alive = Owner(node.folder, "worker")
    perform(node.way.client, slot(node, alive.id).take(LANES))
    node.way.begin(owner=alive.id)
    janitor = make_janitor(node, "janitor-1")
    for life in range(MOST_DEATHS + 1):
        queue_again(node, entry)
        take_and_die(node, f"dead-{life}")
        janitor.tick()

    [found] = quarantine.entries(node.way.client, node.way.moves.keys)
    assert (found.reason, node.way.state()) == ("deadly", State.PROCESSING)
    alive.close()


def test_what_is_no_task_at_all_is_set_aside_too(node):
    """Whatever it was that Celery's parent died of."""
    queue_again(node, b"\xff no envelope")
    janitor = make_janitor(node, "janitor-1")
    for life in range(MOST_DEATHS + 1):
        take_and_die(node, f"dead-{life}")
        janitor.tick()

    [found] = quarantine.entries(node.way.client, node.way.moves.keys)
    assert (found.reason, found.rid, found.beginning) == ("deadly", "", b"\xff no envelope")
    assert backlog(node) == 0


def test_the_count_of_deaths_is_forgotten_in_the_end(node):
    """Every key has an end."""
    queue(node, node.reference(PNG))
    take_and_die(node, "dead")
    make_janitor(node, "janitor-1").tick()

    assert 3590 < node.way.client.ttl("test:deaths:" + NODE) <= 3600
