"""Media that their decoder ends over: a child or two, and then nobody any more."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from handoff import quarantine
from launch.quarantine import quarantine as command
from tests.support import hostile
from tests.support.hostile import Order
from tests.support.tier_node import TierNode, tier_node

pytestmark = pytest.mark.system


@pytest.fixture
def node(client, redis_url, tmp_path):
    with tier_node(client, redis_url, tmp_path) as node:
        yield node


def ends(node: TierNode, rid: str, order: int) -> tuple[str, str, int]:
    node.ask(rid, order)
    node.waits_for(rid, "failed" if order == Order.KILLED_IN_CODEC else "rejected")
    found = node.record(rid)
    assert found.problem is not None
    return found.problem.code, found.problem.message, found.attempt


def test_what_crashes_its_codec_is_refused_after_two_children(node, redis_url, monkeypatch):
    """At once the next time, with no child lost; ``forebay quarantine`` names it, and pardons it."""
    monkeypatch.setattr(hostile, "picture", lambda order, _number: hostile.plain_png(2, 3, (order, 1, 1)))
    worker = node.started(children=2)

    code, said, attempt = ends(node, "r1", Order.CRASH_IN_CODEC)

    assert (code, attempt) == ("media_quarantined", 3)
    assert said == "image_data is in quarantine: 2 workers have ended while they decoded it"
    node.wait_until(lambda: quarantine.entries(node.redis, node.keys) != [], lambda: worker.output)
    children = worker.children
    assert ends(node, "r2", Order.CRASH_IN_CODEC)[::2] == ("media_quarantined", 1)
    assert worker.children == children
    told = CliRunner().invoke(command, ["--redis", redis_url, "--deployment", "test", "list"], env={"COLUMNS": "250"})
    assert "2 children have ended while they decoded it; it is refused" in told.output
    cleared = CliRunner().invoke(command, ["--redis", redis_url, "--deployment", "test", "clear"])
    assert cleared.output == "1 entries forgotten\n1 items are decoded again\n"


def test_a_death_by_others_is_no_items_fault(node):
    """SIGKILL comes from an operator, or from a kernel without memory; three of them end the request, as ever."""
    node.started()

    code, _, attempt = ends(node, "r1", Order.KILLED_IN_CODEC)

    assert (code, attempt) == ("abandoned", 3)
    assert [*node.redis.scan_iter(node.keys.kills("*")), *node.redis.keys(node.keys.refused)] == []


@pytest.mark.parametrize(
    ("setting", "order", "said"),
    [
        ("FOREBAY_ITEM_WALL_S", Order.SLOW_CODEC, "image_data takes more than 1 s to decode"),
        ("FOREBAY_ITEM_MEMORY", Order.HUNGRY_CODEC, "image_data takes more than 1048576 bytes of memory to decode"),
    ],
)
def test_a_codec_that_takes_too_much_costs_its_request_alone(node, setting, order, said):
    """The child goes on."""
    worker = node.started(**{setting: "1MiB" if setting.endswith("MEMORY") else "1"})
    children = worker.children

    _, told, attempt = ends(node, "r1", order)

    assert (told, attempt) == (said, 1)
    node.ask("r2")
    node.waits_for("r2", "parked")
    assert worker.children == children


def test_a_codec_that_hears_nothing_is_ended_by_the_kernel(node):
    """Twice, and then it is refused, long before the task's own limit."""
    worker = node.started(FOREBAY_ITEM_CPU_S="0.2")

    code, _, _ = ends(node, "r1", Order.DEAF_CODEC)

    assert code == "media_quarantined"
    assert worker.process.poll() is None
