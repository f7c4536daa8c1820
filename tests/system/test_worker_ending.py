"""A worker that is to end: it finishes what it is at, but not for ever, and what it leaves goes on elsewhere."""

from __future__ import annotations

import signal

import pytest

from handoff.connection import connect
from tests.support.hostile import Order
from tests.support.tier_node import tier_node
from tests.support.valkey import running_server

pytestmark = pytest.mark.system


@pytest.fixture
def node(tmp_path):
    (tmp_path / "packages").mkdir()
    with running_server(tmp_path) as url:
        client = connect(url, "test")
        with tier_node(client, url, tmp_path / "packages") as node:
            yield node
        client.close()


def test_a_worker_that_is_told_to_end_finishes_what_it_is_at(node):
    """And leaves with nothing in hand."""
    worker = node.started()
    node.ask("at-it", Order.TAKE_A_WHILE)
    node.waits_for("at-it", "processing")

    worker.process.send_signal(signal.SIGTERM)

    assert worker.ended() == 0
    assert node.state("at-it") == "parked"
    assert node.in_hand() == 0


@pytest.mark.parametrize("order", [Order.SLEEP, Order.NEVER_RETURN])
@pytest.mark.parametrize(
    ("grace", "signals", "reason"),
    [("1", 1, "draining took longer than 1 s"), ("600", 2, "it was told twice")],
    ids=["grace time", "second signal"],
)
def test_it_ends_in_the_middle_when_it_must_and_the_next_worker_goes_on(node, order, grace, signals, reason):
    """Limits of a task are a minute here. Its request is not lost, and neither is the one that waits."""
    worker = node.started(FOREBAY_DRAIN_S=grace)
    node.ask("at-it", order, timeout_ms=600_000)
    node.waits_for("at-it", "processing")
    node.ask("waiting")
    worker.process.send_signal(signal.SIGTERM)
    node.wait_until(lambda: "draining" in worker.output, lambda: worker.output)
    if signals == 2:
        worker.process.send_signal(signal.SIGTERM)

    assert worker.ended(within_s=30) == 1
    assert reason in worker.output

    node.started(children=2)
    node.waits_for("waiting", "parked")
    node.wait_until(lambda: node.record("at-it").attempt == 2, lambda: node.said)
