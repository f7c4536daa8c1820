"""What a worker sets aside, what it leaves to others, and what it survives."""

from __future__ import annotations

import hmac

import msgpack
import pytest

from forebay.task import MAX_MESSAGE_BYTES, VERSION, Task, TaskBody, seal
from handoff import quarantine
from handoff.keys import LANES
from handoff.pool import Owner
from handoff.scripts import perform
from handoff.slot import Slot
from tests.support.media import plain_png
from tests.support.node import SECRET
from tests.support.ways import MODEL
from tests.workers.test_driver import Harmful, ended
from tests.workers.test_janitor import make_janitor

pytestmark = pytest.mark.service

PNG = plain_png(2, 3)


def signed(packed: bytes) -> bytes:
    return hmac.digest(SECRET, packed, "sha256") + packed


def set_aside(node) -> list[quarantine.Entry]:
    return quarantine.entries(node.way.client, node.way.moves.keys)


def kill_three_workers(node) -> None:
    for owner, dead in (("dead-1", ""), ("dead-2", "dead-1"), ("dead-3", "dead-2")):
        node.way.begin(owner=owner, dead=dead)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"garbage", "bad_signature"),
        (Task("r1", "t1", 1, MODEL, 0, 0, None).pack(b"another secret of 16"), "bad_signature"),
        (b"x" * (MAX_MESSAGE_BYTES + 1), "bad_task"),
        (signed(b"\xc1"), "bad_task"),
        (signed(msgpack.packb([VERSION, ["r1"], None])), "bad_task"),
        (Task("unknown", "t1", 1, MODEL, 0, 0, None).pack(SECRET), "unknown_request"),
    ],
)
def test_a_message_that_is_not_ours_or_of_nothing_that_is_known_is_set_aside(node, message, reason):
    """It neither crashes the worker nor touches a request, and an operator finds it."""
    node.task(node.reference(PNG))

    node.driver().run(message)

    [found] = set_aside(node)
    assert (found.kind, found.reason, found.size_bytes) == ("message", reason, len(message))
    assert node.way.state() == "queued"


def test_a_task_of_a_later_release_is_left_to_its_record(node):
    """No end and no quarantine: a worker of that release gets it from the janitor beside it."""
    node.task(node.reference(PNG))

    node.driver().run(signed(msgpack.packb([VERSION + 1, {"another": "head"}, b"", "more"])))

    assert node.way.state() == "queued"
    assert set_aside(node) == []


def test_a_janitor_does_not_send_what_a_later_release_has_written(node):
    """It cannot read the body, so it would sign what it does not know; and it ends nothing over that."""
    newer = msgpack.packb([VERSION + 1, "a body", "of another shape"])
    node.way.accept()
    node.way.enqueue(body=seal(newer, SECRET))
    node.way.client.delete(node.way.moves.keys.queue("n1", "text"))
    node.way.age()

    make_janitor(node, "janitor-1").tick()

    assert node.way.state() == "queued"
    assert node.way.messages() == []


def test_a_janitor_of_that_release_sends_it(node, monkeypatch):
    """The record is all it needs."""
    newer = msgpack.packb([VERSION + 1, *msgpack.unpackb(TaskBody.unpack(_body(node)).pack())[1:]])
    node.way.accept()
    node.way.enqueue(body=seal(newer, SECRET))
    node.way.client.delete(node.way.moves.keys.queue("n1", "text"))
    node.way.age()
    monkeypatch.setattr("forebay.task.VERSION", VERSION + 1)

    make_janitor(node, "janitor-1").tick()

    assert len(node.way.messages()) == 1


def _body(node) -> bytes:
    body = Task.unpack(node.task(node.reference(PNG), rid="other", token="other"), SECRET).body
    assert body is not None
    node.way.cancel("other")
    node.way.client.delete(node.way.moves.keys.queue("n1", "text"))
    return body


def test_a_request_that_runs_out_of_memory_ends_and_the_worker_goes_on(node):
    """The code says what it was, and the next request is done."""

    def exhaust(_):
        raise MemoryError

    processor = Harmful(exhaust)
    driver = node.driver(processor)

    driver.run(node.task(node.reference(PNG)))
    state, problem = ended(node)
    processor.deed = lambda _: None
    driver.run(node.task(node.reference(PNG), rid="r2", token="t2"))

    assert (state, problem.code, problem.status) == ("failed", "out_of_memory", 503)
    assert node.way.state("r2") == "parked"


@pytest.mark.parametrize("who", ["driver", "janitor"])
def test_the_media_of_an_abandoned_request_are_named_in_quarantine(node, who):
    """One entry an item, once, whoever gives it up: what killed the workers is among them."""
    ref = node.reference(PNG)
    message = node.task(ref)
    kill_three_workers(node)
    janitor, driver = make_janitor(node, "janitor-1"), node.driver()

    for _ in range(2):
        node.way.make_due()
        if who == "driver":
            driver.run(message)
        else:
            janitor.tick()

    [found] = set_aside(node)
    assert (node.way.state(), found.kind, found.reason) == ("failed", "media", "abandoned")
    assert (found.digest, found.rid, found.node) == (ref.digest, "r1", "n1")


def test_the_janitor_puts_back_what_a_dead_worker_has_taken_and_nothing_of_the_living(node):
    """A lock file tells which is which."""
    client, keys = node.way.client, node.way.moves.keys
    life = Owner(node.folder, "parent")
    for rid, owner in (("r1", life.id), ("r2", "parent-dead")):
        node.way.queued(rid, f"t-{rid}")
        perform(client, Slot(keys, "n1", owner).take(LANES))

    make_janitor(node, "janitor-1").tick()

    assert node.way.messages() == [b"message of r2"]
    assert client.lrange(keys.taken("n1", life.id, "text"), 0, -1) == [b"message of r1"]
    life.close()
