"""A request whose worker lives and is no longer at it: it could not say how that ended, and somebody else goes on."""

import logging
import os
from threading import Event, Thread

import pytest

from forebay import Failed
from handoff.connection import connect
from handoff.pool import Owner, is_at
from handoff.pool.owners import has_fresh_mark, marks_of
from tests.support.media import plain_png
from tests.support.ways import MODEL, NODE
from tests.workers.test_driver import Harmful
from tests.workers.test_janitor import make_janitor
from workers.job import work_name

pytestmark = pytest.mark.service

PNG = plain_png(2, 3)


def fail_without_redis(node, message):
    """A child that loses Redis before it can park, or end, and that has it back when it is idle."""

    def cut(_):
        driver.redis = connect("redis://127.0.0.1:1", "away")

    driver = node.driver(Harmful(cut))
    with pytest.raises(Failed, match="cannot be reached"):
        driver.run(message)
    driver.redis = node.way.client
    return driver


@pytest.fixture
def left(node):
    """The child that lives and is idle, and its message."""
    message = node.task(node.reference(PNG))
    driver = fail_without_redis(node, message)
    assert (node.way.state(), node.way.record().owner) == ("processing", driver.owner)
    return driver, message


def test_a_sibling_that_gets_its_message_takes_it_up(node, left):
    """Under the next attempt, and at once."""
    _, message = left

    node.driver().run(message)

    assert (node.way.state(), node.way.record().attempt) == ("parked", 2)
    assert {info.attempt for info in node.pool.blocks()} == {2}


def test_without_a_message_the_janitor_sends_it_again_at_its_next_look(node, left):
    """It does not wait for its deadline."""
    node.way.client.delete(node.way.moves.keys.queue(NODE, "text"))
    node.way.make_due()

    make_janitor(node, "janitor-1").tick()

    assert (node.way.state(), node.way.record().attempt) == ("queued", 2)
    assert len(node.way.messages()) == 1


def test_the_same_child_goes_on_with_it(node, left):
    """If it is the one to get the message again: nobody else had begun."""
    driver, message = left
    driver.processors[MODEL].processor.deed = lambda _: None

    driver.run(message)

    assert (node.way.state(), node.way.record().attempt) == ("parked", 1)


def test_it_is_given_up_after_the_last_attempt(node):
    """As after a death: three children cannot say how it ended, and a fourth does not begin."""
    message = node.task(node.reference(PNG))
    for _ in range(3):
        fail_without_redis(node, message)

    node.driver().run(message)

    assert (node.way.state(), node.way.record().problem.code) == ("failed", "abandoned")


def test_one_that_is_still_at_it_is_robbed_by_nobody(node, caplog):
    """However often its message comes again and the janitor looks; there is one end."""
    begun, go_on = Event(), Event()

    def wait(_):
        begun.set()
        assert go_on.wait(30)

    caplog.set_level(logging.INFO)
    driver = node.driver(Harmful(wait))
    message = node.task(node.reference(PNG))
    thread = Thread(target=driver.run, args=(message,))
    thread.start()
    assert begun.wait(30)
    before = node.way.raw()

    for _ in range(3):
        node.driver().run(message)
        node.way.make_due()
        make_janitor(node, "janitor-1").tick()

    assert node.way.raw() == before
    assert [one.outcome for one in caplog.records if one.getMessage() == "task not taken"] == ["busy"] * 3
    go_on.set()
    thread.join(30)
    assert (node.way.state(), node.way.record().attempt) == ("parked", 1)


def test_what_it_ends_late_is_too_late(node, left):
    """The attempt that was taken over has no say any more."""
    driver, message = left
    node.driver().run(message)
    before = node.way.raw()

    assert not node.way.park(attempt=1, owner=driver.owner).ok

    assert node.way.raw() == before


def test_a_child_that_has_just_died_over_an_item_is_its_parents_first(node):
    """It counts that death and puts the message back; a third child that is quicker would die over the same item."""
    node.task(node.reference(PNG))
    node.way.begin(owner="worker-1-dead")
    lock = node.folder / "owner-worker-1-dead"
    lock.write_bytes(b"sha256:abc".ljust(128) + work_name("r1", "t1").encode().ljust(64))
    node.way.make_due()
    make_janitor(node, "janitor-1").tick()
    assert (node.way.state(), node.way.record().attempt) == ("processing", 1)

    os.utime(lock, (1, 1))  # the parent has died as well
    node.way.make_due()
    make_janitor(node, "janitor-1").tick()

    assert (node.way.state(), node.way.record().attempt) == ("queued", 2)


def test_an_owner_says_what_it_is_at(shm):
    """Beside its mark, which is read as ever. Of one that has said nothing nobody knows better."""
    life, name = Owner(shm, "worker"), work_name("r1", "t1")
    assert is_at(shm, life.id, name)

    with life.at_work(name):
        assert (is_at(shm, life.id, name), is_at(shm, life.id, work_name("r1", "t2"))) == (True, False)
        assert marks_of(shm, "worker-") == {}
        with life.marked("sha256:abc"):
            assert marks_of(shm, "worker-") == {life.id: "sha256:abc"}
            assert is_at(shm, life.id, name)
            assert has_fresh_mark(shm, life.id, 60)

    assert not is_at(shm, life.id, name)
    assert not has_fresh_mark(shm, life.id, 60)
    life.close()
    assert not is_at(shm, life.id, name)
