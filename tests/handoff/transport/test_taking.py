"""Taking from the lanes: a message is in a list at every moment, and the lanes are served as kombu serves them."""

from __future__ import annotations

import pytest
from kombu import Connection

from forebay.settings import SharedSettings
from handoff.keys import LANES
from handoff.queue import QueueWorker, make_app
from handoff.scripts import perform
from handoff.slot import Slot
from handoff.transport.channel import SentinelTransport, Transport
from tests.support.consuming import KEYS, NODE, consuming, entry, in_hand, push, queued

pytestmark = pytest.mark.service


def test_a_message_leaves_its_queue_for_the_hand_and_the_hand_with_its_acknowledgement(redis_url, client):
    """One step each, so there is no moment at which it is nowhere."""
    push(client, entry(1))

    with consuming(redis_url) as hand:
        assert hand.take() == ["r1"]
        held = in_hand(client)
        hand.messages[0].ack()

        assert [len(found) for found in held.values()] == [1]
        assert (in_hand(client), queued(client)) == ({}, [])


def test_nothing_is_written_to_kombus_own_book(redis_url, client):
    """Its two keys cost a round trip a message, and would be restored by the clock."""
    push(client, entry(1))

    with consuming(redis_url) as hand:
        hand.take()

        assert client.exists("test:unacked", "test:unacked_index") == 0


def test_the_lanes_take_turns_and_a_lane_keeps_its_order(redis_url, client):
    """A lane with a long backlog does not hold the others up."""
    push(client, *(entry(number) for number in range(3)))
    push(client, entry(10, "bulk"), entry(11, "bulk"), lane="bulk")
    push(client, entry(20, "interactive"), lane="interactive")

    with consuming(redis_url) as hand:
        order = hand.take(most=6)

    assert order == ["r0", "r20", "r10", "r1", "r11", "r2"]


def test_no_more_is_taken_than_there_is_credit_for(redis_url, client):
    """What a worker cannot begin stays where another one finds it."""
    push(client, entry(1), entry(2), entry(3))

    with consuming(redis_url, credit=2) as hand:
        first = hand.take(most=3, for_s=0.5)
        left = queued(client)
        hand.messages[0].ack()
        then = hand.take()

    assert (first, len(left), then) == (["r1", "r2"], 1, ["r3"])


def test_two_messages_with_one_tag_are_two(redis_url, client):
    """The sender's delivery tag is not what we tell them apart by."""
    push(client, entry(1), same := entry(2), same)

    with consuming(redis_url) as hand:
        hand.take(most=3)
        hand.messages[1].ack()

        assert in_hand(client)["text"].count(same) == 1


def test_what_a_dead_worker_had_in_hand_is_next_again_in_its_order(redis_url, client):
    """Whoever finds it dead puts everything back before what came later."""
    push(client, *(entry(number) for number in range(4)))
    slot = Slot(KEYS, NODE, "dead")
    for _ in range(3):
        perform(client, slot.take(LANES))

    back = perform(client, slot.recover())

    assert back == 3
    assert perform(client, slot.recover()) == 0
    assert client.exists(KEYS.takers(NODE)) == 0
    with consuming(redis_url) as hand:
        assert hand.take(most=4) == ["r0", "r1", "r2", "r3"]


def test_a_worker_that_connects_again_puts_back_what_its_lost_connection_had(redis_url, client):
    """Its life goes on, so nobody else would."""
    push(client, entry(1))
    perform(client, Slot(KEYS, NODE, "w1").take(LANES))

    with consuming(redis_url) as hand:
        assert hand.take() == ["r1"]
        assert len(in_hand(client)["text"]) == 1


def test_an_idle_worker_wakes_when_the_bell_rings(redis_url, client, way):
    """Not after the time-out of its wait, of which there is one a second."""
    with consuming(redis_url) as hand:
        hand.take(for_s=0.1)
        push(client, entry(1))

        assert hand.take(for_s=0.5) == ["r1"]


def test_a_message_that_nobody_rang_for_is_found_all_the_same(redis_url, client):
    """An API of another release, or a bell that another worker heard."""
    with consuming(redis_url) as hand:
        hand.take(for_s=0.1)
        push(client, entry(1), rings=False)

        assert hand.take(for_s=2.5) == ["r1"]


def test_queuing_rings_the_bell_once_however_much_is_queued(way, client):
    """It is a token, not a count; who takes one and leaves more rings again."""
    for number in range(3):
        way.queued(f"r{number}", f"t{number}")

    assert client.llen(KEYS.bell(NODE)) == 1
    client.delete(KEYS.bell(NODE))
    perform(client, Slot(KEYS, NODE, "w1").take(LANES))
    assert client.llen(KEYS.bell(NODE)) == 1


def test_a_server_that_forgot_the_scripts_learns_them_again(redis_url, client):
    """As after its restart."""
    push(client, entry(1))
    client.script_flush()

    with consuming(redis_url) as hand:
        assert hand.take(for_s=2.5) == ["r1"]


@pytest.mark.parametrize(("requeue", "expected"), [(True, ["r2", "r1"]), (False, ["r2"])])
def test_a_rejected_message_goes_to_the_end_or_nowhere(redis_url, client, requeue, expected):
    """As kombu has it."""
    push(client, entry(1), entry(2))

    with consuming(redis_url) as hand:
        hand.take()
        hand.messages[0].reject(requeue=requeue)
        order = hand.take(most=2, for_s=0.5)

    assert order == expected


def test_a_connection_that_closes_puts_everything_back(redis_url, client):
    """A worker that ends in good order leaves nothing to be recovered."""
    push(client, first := entry(1), second := entry(2))

    with consuming(redis_url) as hand:
        hand.take(most=2)

    assert (in_hand(client), queued(client)) == ({}, [first, second])


@pytest.mark.parametrize("end", ["ack", "reject", "requeue"])
def test_a_task_may_end_after_its_connection(redis_url, client, end):
    """Its message went back with the connection; what becomes of it is the next one's to say."""
    push(client, first := entry(1))

    with consuming(redis_url) as hand:
        hand.take()
    getattr(hand.messages[0], end)()

    assert (in_hand(client), queued(client)) == ({}, [first])


def test_what_celery_says_of_its_broker_is_an_address():
    """``Cannot connect to redis://…``, at three in the morning; not the name of a class."""
    said = Connection("redis://user:secret@127.0.0.1:1/0", transport=Transport).as_uri()

    assert said.startswith("redis://user:**@127.0.0.1")


def test_the_transport_is_ours_whichever_sentinel_is_asked():
    """kombu goes to the next address after a failed try, and would take its own transport there."""
    url = "sentinel://127.0.0.1:1,127.0.0.1:2/forebay/0"
    settings = SharedSettings(secret=b"0123456789abcdef", redis_url=url)
    app = make_app(settings, QueueWorker(NODE, "life"))

    with app.connection_for_read() as broker:
        for _ in range(3):
            assert broker.transport_cls is SentinelTransport
            assert isinstance(broker.transport, SentinelTransport)
            broker.maybe_switch_next()
        assert broker.clone().transport_cls is SentinelTransport
    app.close()
