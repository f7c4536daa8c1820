"""A message that is in no list any more: the janitor sends another, once it is sure, and not for ever."""

import base64
import json

import msgpack
import pytest

from forebay import Prompt
from forebay.task import Kind, Task, TaskBody, seal
from handoff.keys import LANES
from handoff.moves import MOST_RESENT
from handoff.pool import Owner
from handoff.quarantine import entries
from handoff.scripts import perform
from handoff.slot import Slot
from tests.support.media import plain_png
from tests.support.node import SECRET
from tests.support.ways import NODE
from tests.workers.test_janitor import make_janitor

pytestmark = pytest.mark.service

PNG = plain_png(2, 3)
SEALED = seal(TaskBody(Kind.GENERATE, Prompt(ids=(1,))).pack(), SECRET)


@pytest.fixture
def janitor(node):
    return make_janitor(node, "janitor-1")


def next_task(node):
    """The one that a worker would be given now."""
    entry = json.loads(node.way.messages()[-1])
    [[message], _, _] = msgpack.unpackb(base64.b64decode(entry["body"]))
    return Task.unpack(message, SECRET)


@pytest.mark.parametrize("others", [0, 1, 40])
def test_a_lost_message_is_sent_again(node, janitor, others):
    """The same attempt, for nobody had begun; before all that came later, and however much waits in its lane."""
    node.way.accept()
    node.way.enqueue(body=SEALED)
    for number in range(others):
        node.way.queued(f"r{number + 2}", f"t{number + 2}")
    node.way.age()
    janitor.tick()
    assert len(node.way.messages()) == 1 + others

    node.way.client.lrem(node.way.moves.keys.queue(NODE, "text"), 0, b"message of r1")
    for _ in range(2):
        node.way.make_due()
        janitor.tick()

    assert len(node.way.messages()) == 1 + others
    task = next_task(node)
    assert (task.rid, task.attempt, node.way.state(), node.way.record().resent) == ("r1", 1, "queued", 1)


@pytest.mark.parametrize("lives", [True, False])
def test_a_message_in_a_workers_hand_is_not_lost(node, janitor, lives):
    """Neither while the worker lives, however long its children are busy, nor when it has died: that one goes back."""
    worker = Owner(node.folder, "parent")
    node.way.accept()
    node.way.enqueue(body=SEALED)
    assert perform(node.way.client, Slot(node.way.moves.keys, NODE, worker.id).take(LANES)) is not None
    if not lives:
        worker.close()
    node.way.age()

    janitor.tick()

    assert node.way.messages() == ([] if lives else [b"message of r1"])
    assert node.way.record().resent == 0
    worker.close()


def test_a_message_that_vanishes_every_time_ends_its_request(node, janitor):
    """After ten more; its media are not to blame, and are not in quarantine."""
    node.task(node.reference(PNG))
    for _ in range(MOST_RESENT + 1):
        assert node.way.state() == "queued"
        node.way.client.delete(node.way.moves.keys.queue(NODE, "text"))
        node.way.age(ms=20_000)
        janitor.tick()

    problem = node.way.record().problem
    assert (node.way.state(), problem.code) == ("failed", "abandoned")
    assert problem.message == "abandoned after its message was lost 11 times before a worker had begun"
    assert entries(node.way.client, node.way.moves.keys) == []


def test_what_an_earlier_release_has_queued_is_sent_again_when_its_lane_is_empty(node, janitor):
    """Its record does not have the message, so no other proof is to be had."""
    node.way.accept()
    node.way.enqueue(body=SEALED)
    node.way.client.hdel(node.way.moves.keys.record("r1"), "message")
    node.way.age()
    janitor.tick()
    assert node.way.messages() == [b"message of r1"]

    node.way.client.delete(node.way.moves.keys.queue(NODE, "text"))
    node.way.make_due()
    janitor.tick()

    assert next_task(node).rid == "r1"
