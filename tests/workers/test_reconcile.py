"""What becomes of a request that stands still: the whole table of decisions, without a clock or a server."""

import pytest

from forebay.states import ENDS, State
from handoff.moves import MAX_ATTEMPTS, MOST_RESENT
from handoff.record import Record
from workers.reconcile import LOST_MESSAGE_MS, Surroundings, Verdict, judge, may_be_lost

NOW = 1_000_000


def request(state, *, node="n1", attempt=1, deadline_ms=NOW + 1, queued_ms=NOW, owner="alive", resent=0, lapses=0):
    return Record(
        rid="r1",
        state=State(state),
        token="t1",
        tenant="",
        reply_to="",
        attempt=attempt,
        model="toy",
        kind="generate",
        node=node,
        lane="text",
        owner=owner,
        priority=0,
        deadline_ms=deadline_ms,
        lapses=lapses,
        resent=resent,
        body=b"",
        ticket=b"",
        times_ms={} if state == "accepted" else {"queued": queued_ms},
    )


def verdict(record, *, lost=(), features=True, neglected=()):
    around = Surroundings(
        node="n1",
        now_ms=NOW,
        live_nodes=frozenset({"n1", "n2"}),
        neglected=frozenset(neglected),
        is_at_work=lambda record: record.owner == "alive",
        lost=frozenset(lost),
        has_features=lambda _: features,
    )
    return judge(record, around)


@pytest.mark.parametrize("state", sorted(ENDS))
def test_an_end_is_left_alone(state):
    """Even past its deadline, on a node that is gone."""
    assert verdict(request(state, deadline_ms=0, node="gone")) is Verdict.LEAVE


@pytest.mark.parametrize("state", ["accepted", "queued", "processing", "parked", "admitted"])
def test_every_live_request_expires_at_its_deadline(state):
    """To the millisecond, wherever it is and whoever has it."""
    for node in ("n1", "n2", "gone"):
        assert verdict(request(state, node=node, deadline_ms=NOW)) is Verdict.EXPIRE
    assert verdict(request(state, deadline_ms=NOW + 1)) is Verdict.LEAVE


def test_an_accepted_request_is_its_api_processs_until_the_deadline():
    """It may be fetching media for a while; it has no node yet."""
    assert verdict(request("accepted", node="")) is Verdict.LEAVE


@pytest.mark.parametrize("state", ["queued", "processing", "parked", "admitted"])
def test_a_request_of_a_node_that_is_gone_is_tried_elsewhere(state):
    """Queue, worker, features and scheduler were all the node's."""
    assert verdict(request(state, node="gone")) is Verdict.NEXT_ATTEMPT


@pytest.mark.parametrize("state", ["queued", "processing", "parked", "admitted"])
def test_a_request_of_another_living_node_is_that_nodes(state):
    """Its lock files and queues mean nothing here."""
    record = request(state, node="n2", owner="dead", queued_ms=0)

    assert verdict(record) is Verdict.LEAVE


@pytest.mark.parametrize("state", ["queued", "processing", "parked", "admitted"])
def test_what_a_living_nodes_workers_have_left_is_tried_elsewhere(state):
    """What is parked is its schedulers', who live; of what is admitted only that is named whose lease has ended."""
    left = verdict(request(state, node="n2"), neglected=["r1"])

    assert left is (Verdict.LEAVE if state == "parked" else Verdict.NEXT_ATTEMPT)


def test_our_own_node_lives_while_we_judge():
    """Even if its announcement is late."""
    around = Surroundings("n1", NOW, frozenset(), frozenset(), lambda _: True, frozenset(), lambda _: True)

    assert judge(request("processing"), around) is Verdict.LEAVE


def test_the_request_of_a_worker_that_has_died_or_left_it_is_tried_again():
    """Of one that is at it, it is not, however long that takes."""
    assert verdict(request("processing", owner="dead")) is Verdict.NEXT_ATTEMPT
    assert verdict(request("processing", owner="alive", queued_ms=0)) is Verdict.LEAVE


@pytest.mark.parametrize(
    "record", [request("processing", owner="dead", attempt=MAX_ATTEMPTS), request("parked", node="gone", attempt=3)]
)
def test_after_the_last_attempt_a_request_is_abandoned(record):
    """Whatever ended the attempts."""
    assert verdict(record) is Verdict.ABANDON


def test_schedulers_that_have_died_over_it_count_with_the_workers():
    """Three in all."""
    assert verdict(request("processing", owner="dead", attempt=1, lapses=1)) is Verdict.NEXT_ATTEMPT
    assert verdict(request("processing", owner="dead", attempt=1, lapses=2)) is Verdict.ABANDON
    assert verdict(request("parked", node="gone", attempt=2, lapses=1)) is Verdict.ABANDON


def test_before_the_last_attempt_it_is_not():
    """Three are allowed."""
    assert verdict(request("processing", owner="dead", attempt=MAX_ATTEMPTS - 1)) is Verdict.NEXT_ATTEMPT


def test_a_queued_request_whose_message_is_in_no_list_is_sent_again():
    """Whatever else waits in its lane. The same attempt, for nobody has begun it."""
    assert verdict(request("queued", queued_ms=0, attempt=MAX_ATTEMPTS), lost=["r1"]) is Verdict.SEND_AGAIN
    assert verdict(request("queued", queued_ms=0), lost=["another"]) is Verdict.LEAVE
    assert verdict(request("processing"), lost=["r1"]) is Verdict.LEAVE


def test_a_message_that_is_lost_again_and_again_is_not_sent_for_ever():
    """Something takes them that is none of ours; nobody has begun, so it is no question of attempts."""
    assert verdict(request("queued", resent=MOST_RESENT - 1), lost=["r1"]) is Verdict.SEND_AGAIN
    assert verdict(request("queued", resent=MOST_RESENT), lost=["r1"]) is Verdict.GIVE_UP


def test_nobody_asks_where_the_message_of_a_fresh_request_is():
    """Nor of one that somebody has begun."""
    late = NOW - LOST_MESSAGE_MS - 1

    assert may_be_lost(request("queued", queued_ms=late), NOW)
    assert not may_be_lost(request("queued", queued_ms=late + 1), NOW)
    assert not may_be_lost(request("processing", queued_ms=late), NOW)


@pytest.mark.parametrize("state", ["parked", "admitted"])
def test_what_waits_or_runs_on_this_node_is_left_to_leases_and_deadlines(state):
    """The scheduler's lease says whether it lives."""
    assert verdict(request(state, queued_ms=0, owner="dead")) is Verdict.LEAVE


def test_a_parked_request_whose_features_are_gone_is_tried_again():
    """The pool was made anew; only a ticket that waits is judged so, for a scheduler that has it sees for itself."""
    assert verdict(request("parked"), features=False) is Verdict.NEXT_ATTEMPT
    assert verdict(request("parked", attempt=MAX_ATTEMPTS), features=False) is Verdict.ABANDON
    assert verdict(request("admitted"), features=False) is Verdict.LEAVE
    assert verdict(request("parked")) is Verdict.LEAVE
