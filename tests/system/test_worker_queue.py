"""The queue's promises, held by real worker processes: nothing is lost, nothing runs twice, nothing ends the worker."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import redis

from forebay.client import encode
from handoff import quarantine
from handoff.pool import Pool
from handoff.scripts import perform
from tests.handoff.transport.test_guarding import ROWS
from tests.support import media
from tests.support.deployment import running
from tests.support.hostile import Order
from tests.support.tier_node import TierNode, tier_node

pytestmark = pytest.mark.system


@pytest.fixture
def node(client, redis_url, tmp_path):
    with tier_node(client, redis_url, tmp_path) as node:
        yield node


def blocks(node):
    pool = Pool(node.folder / "pool", "viewer", writable=False, prefault=False)
    try:
        return pool.blocks()
    finally:
        pool.close()


def test_a_message_that_a_frozen_worker_took_is_done_by_the_next(node):
    """Taken, never begun, then SIGKILL: kombu alone would have lost it. Here its list is found with its owner dead."""
    worker = node.started()
    time.sleep(0.3)  # it waits for the bell again, so Redis gives it the next message
    os.kill(worker.process.pid, signal.SIGSTOP)
    node.ask("r1")
    node.wait_until(lambda: node.in_hand() == 1, lambda: "nobody took it")

    worker.kill()
    node.started()

    node.waits_for("r1", "parked", within_s=8)  # long before the reconciler takes a message for lost
    assert node.record("r1").attempt == 1
    assert "messages of a dead worker put back" in node.said
    node.wait_until(node.is_quiet, lambda: node.said)


def test_every_row_of_bad_messages_leaves_the_worker_alive(node):
    """All of them at once, each counted, and a good one behind them is done."""
    worker = node.started()

    for message, _ in ROWS.values():
        node.push(message)
    node.ask("r1")

    node.waits_for("r1", "parked")
    assert worker.process.poll() is None
    found = quarantine.entries(node.redis, node.keys)
    assert sorted(one.reason for one in found) == sorted(reason for _, reason in ROWS.values())
    assert "restarting" not in worker.output.lower()
    node.wait_until(node.is_quiet, lambda: node.said)


def test_a_forged_task_is_set_aside_by_the_child(node):
    """The envelope is right and the signature is not."""
    other = node.ask("r1")
    node.redis.delete(node.keys.queue(node.name, "interactive"))
    node.secret, ours = b"another secret of 16", node.secret
    forged = node.ask("r2")
    node.secret = ours
    worker = node.started()

    node.push(other)

    node.waits_for("r1", "parked")
    [found] = quarantine.entries(node.redis, node.keys)
    assert (found.reason, node.state("r2"), worker.process.poll()) == ("bad_signature", "queued", None)
    assert forged


def test_a_message_that_comes_again_and_late_gives_one_result(node):
    """Twice in a row, and once more when it is parked: one block, one attempt."""
    node.started(children=2)
    entry = node.ask("r1")
    node.push(entry)
    node.waits_for("r1", "parked")
    node.push(entry)
    node.wait_until(node.is_quiet, lambda: node.said)

    [info] = blocks(node)
    assert (info.rid, info.attempt, node.record("r1").attempt) == ("r1", 1, 1)
    assert node.redis.zcard(node.keys.parked(node.name, "hostile")) == 1


def test_a_message_that_two_workers_have_at_once_gives_one_result(node):
    """The record decides; the loser writes nothing and keeps nothing."""
    node.started()
    node.started()
    entries = [node.ask(f"r{number}", Order.TAKE_A_WHILE) for number in range(4)]
    for entry in entries:
        node.push(entry)

    for number in range(4):
        node.waits_for(f"r{number}", "parked")
    node.wait_until(node.is_quiet, lambda: node.said)

    assert sorted(info.rid for info in blocks(node)) == ["r0", "r1", "r2", "r3"]
    assert {node.record(f"r{number}").attempt for number in range(4)} == {1}
    live, _ = node.redis.hmget(node.keys.tenant(""), "live", "bytes")
    assert int(live) == 4


def test_the_loser_of_a_race_has_no_block_and_writes_no_end(node):
    """A child that was taken for dead comes back with a result that another has parked by now."""
    worker = node.started(children=2)
    node.ask("r1", Order.TAKE_A_WHILE)
    # In its processor by then, and not within a step on the pool's table, where it would keep the lock.
    node.wait_until(lambda: blocks(node) != [], lambda: worker.output)
    owner = node.record("r1").owner
    os.kill(frozen := int(owner.split("-")[1]), signal.SIGSTOP)
    (node.folder / f"owner-{owner}").unlink()  # to the others it looks dead

    node.waits_for("r1", "parked")
    os.kill(frozen, signal.SIGCONT)

    # Its parent may tell it beforehand that nobody wants it any more; that its write is refused, test_driver.py shows.
    ends = ("rid=r1 state=failed written=False", "task given up: its request has ended  rid=r1")
    node.wait_until(lambda: any(end in worker.output for end in ends), lambda: worker.output)
    [info] = blocks(node)
    assert (info.rid, info.attempt, node.record("r1").attempt, node.state("r1")) == ("r1", 2, 2, "parked")


@pytest.mark.parametrize("how", ["cancelled", "expired"])
def test_work_that_nobody_wants_is_stopped(node, how):
    """The child is asked, gives its block back and goes on with the next request, long before it would have ended."""
    worker = node.started()
    children = worker.children
    node.ask("r1", Order.SLEEP, timeout_ms=60_000 if how == "cancelled" else 3_000)
    node.waits_for("r1", "processing")
    node.ask("r2")

    if how == "cancelled":
        perform(node.redis, node.moves.cancel("r1"))

    node.waits_for("r2", "parked", within_s=20)  # of the minute that the first one sleeps
    assert (node.state("r1"), node.record("r1").attempt) == (how, 1)
    assert [info.rid for info in blocks(node)] == ["r2"]
    assert worker.children == children


def test_work_that_nobody_wants_and_that_hears_nothing_is_killed(node):
    """With its child, two rounds later; the message that comes back is refused by its record."""
    worker = node.started()
    children = worker.children
    node.ask("r1", Order.NEVER_RETURN)
    node.waits_for("r1", "processing")
    node.ask("r2")

    perform(node.redis, node.moves.cancel("r1"))

    node.waits_for("r2", "parked", within_s=30)
    assert (node.state("r1"), node.record("r1").attempt) == ("cancelled", 1)
    assert not worker.children & children
    node.wait_until(lambda: [info.rid for info in blocks(node)] == ["r2"], lambda: worker.output)
    node.wait_until(node.is_quiet, lambda: node.said)


def test_a_result_that_nobody_wants_any_more_is_counted_and_its_block_freed(node):
    """Cancelled in the middle of its work, when nobody is there who would stop it."""
    worker = node.started()
    node.ask("r1", Order.TAKE_A_WHILE)
    node.waits_for("r1", "processing")
    os.kill(worker.process.pid, signal.SIGSTOP)

    perform(node.redis, node.moves.cancel("r1"))

    node.wait_until(lambda: "late result dropped" in worker.output, lambda: worker.output)
    os.kill(worker.process.pid, signal.SIGCONT)
    node.wait_until(lambda: blocks(node) == [], lambda: worker.output)
    assert node.state("r1") == "cancelled"


def test_a_task_that_takes_too_long_ends_and_its_child_goes_on(node):
    """The soft limit is told to Python."""
    worker = node.started(FOREBAY_SOFT_LIMIT_S="1", FOREBAY_HARD_LIMIT_S="20")
    children = worker.children
    node.ask("r1", Order.SLEEP)
    node.ask("r2")

    node.waits_for("r2", "parked")

    assert (node.state("r1"), node.record("r1").problem.code) == ("failed", "time_limit")
    assert worker.children == children


def test_a_child_that_does_not_return_to_python_is_killed_and_replaced(node):
    """C099: the hard limit ends it and its request, at once and for good; its media are named."""
    worker = node.started(FOREBAY_SOFT_LIMIT_S="1", FOREBAY_HARD_LIMIT_S="2")
    children = worker.children
    node.ask("r1", Order.NEVER_RETURN)
    node.waits_for("r1", "processing")

    node.waits_for("r1", "failed")
    node.ask("r2")
    node.waits_for("r2", "parked")

    ended = node.record("r1")
    assert (ended.attempt, ended.problem.code, ended.problem.status) == (1, "time_limit", 504)
    assert ended.problem.message == "preprocessing took longer than 2 s and was killed"
    node.wait_until(lambda: not worker.children & children, lambda: worker.output)
    assert worker.process.poll() is None
    node.wait_until(lambda: [info.rid for info in blocks(node)] == ["r2"], lambda: worker.output)
    node.wait_until(lambda: quarantine.entries(node.redis, node.keys) != [], lambda: worker.output)
    [found] = quarantine.entries(node.redis, node.keys)
    assert (found.kind, found.rid, found.reason) == ("media", "r1", "time_limit")
    node.wait_until(node.is_quiet, lambda: node.said)


def test_what_kills_every_child_is_abandoned_and_the_queue_goes_on(node):
    """C092: three attempts, then an end that says so; its media are named, and nothing of it is left."""
    worker = node.started(children=2)
    node.ask("r1", Order.DIE)
    node.ask("r2")

    node.waits_for("r1", "failed")
    node.waits_for("r2", "parked")

    ended = node.record("r1")
    assert (ended.attempt, ended.problem.code, ended.problem.status) == (3, "abandoned", 500)
    assert ended.problem.message == "abandoned after 3 attempts: each lost its worker or its scheduler"
    node.wait_until(lambda: quarantine.entries(node.redis, node.keys) != [], lambda: worker.output)
    [found] = quarantine.entries(node.redis, node.keys)
    assert (found.kind, found.rid, found.reason) == ("media", "r1", "abandoned")
    node.wait_until(lambda: [info.rid for info in blocks(node)] == ["r2"], lambda: worker.output)
    assert worker.process.poll() is None


def test_a_memory_error_ends_its_request_and_nothing_else(node):
    """Celery would hand it to the parent, and end that."""
    worker = node.started()
    node.ask("r1", Order.NO_MEMORY)
    node.ask("r2")

    node.waits_for("r2", "parked")

    assert (node.state("r1"), node.record("r1").problem.code) == ("failed", "out_of_memory")
    assert worker.process.poll() is None


@pytest.mark.parametrize(
    ("order", "settings"),
    [
        (Order.NOTHING, {"FOREBAY_CHILD_TASKS": "3"}),
        (Order.LEAK, {"FOREBAY_CHILD_RSS": "300MiB"}),
    ],
)
def test_children_are_replaced_by_count_and_by_what_they_have_grown_to(node, order, settings):
    """And no request is lost over it."""
    worker = node.started(**settings)
    first = worker.children
    for number in range(6):
        node.ask(f"r{number}", order)

    for number in range(6):
        node.waits_for(f"r{number}", "parked")

    node.wait_until(lambda: not worker.children & first, lambda: worker.output)
    assert {node.record(f"r{number}").attempt for number in range(6)} == {1}


def test_the_pool_does_not_count_as_a_childs_memory(node):
    """Every child maps and touches all of it."""
    worker = node.started(FOREBAY_CHILD_RSS="300MiB", FOREBAY_POOL_BYTES="400MiB")
    first = worker.children
    for number in range(4):
        node.ask(f"r{number}")

    for number in range(4):
        node.waits_for(f"r{number}", "parked")

    time.sleep(0.3)
    assert worker.children == first


def test_a_worker_whose_celery_is_set_from_elsewhere_does_not_start(node, redis_url):
    """Celery reads variables of its own; what they change is named."""
    worker = node.start(CELERY_BROKER_URL="redis://127.0.0.1:1/0", CELERY_RESULT_BACKEND="rpc://")

    assert worker.ended() != 0
    said = " ".join(worker.output.split())
    assert "broker_read_url is not REDIS_URL" in said
    assert "result_backend is 'rpc://'" in said


def test_limits_that_do_not_rise_are_refused(node):
    """A soft limit behind the hard one would never be told."""
    worker = node.start(FOREBAY_SOFT_LIMIT_S="9", FOREBAY_HARD_LIMIT_S="9")

    assert worker.ended() != 0
    assert "the soft limit must come before the hard one" in " ".join(worker.output.split())


def test_a_server_that_may_delete_queues_is_said_at_the_start(node):
    """It may be meant so; it is never silent."""
    node.redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        worker = node.started()
    finally:
        node.redis.config_set("maxmemory-policy", "noeviction")

    assert "a full Redis deletes queues and records" in worker.output


def test_a_restart_under_load_loses_nothing(node):
    """Five workers, each killed with everything it had; every request is parked in the end, once."""
    for number in range(60):
        node.ask(f"r{number}", timeout_ms=120_000)
    for _ in range(4):
        worker = node.started(children=2)
        time.sleep(0.05)
        worker.kill()
    node.started(children=2)

    for number in range(60):
        node.waits_for(f"r{number}", "parked", within_s=60)
    node.wait_until(node.is_quiet, lambda: node.said)
    assert sorted(info.rid for info in blocks(node)) == sorted(f"r{number}" for number in range(60))


def test_a_request_whose_message_comes_three_times_is_answered_and_counted_once():
    """Through the API: one answer, one request in the metrics, nothing set aside."""
    with running(["--model", "efficientnet-lite0", "--workers", "2", "--no-flower"]) as deployment:
        parent = deployment.pids_of("worker")[0]
        with redis.Redis(unix_socket_path=f"/tmp/{deployment.name}/redis.sock") as client:
            os.kill(parent, signal.SIGSTOP)
            body = {"model": "efficientnet-lite0", "text": "x", "image_data": encode(media.coffee()), "rid": "r1"}
            with ThreadPoolExecutor(1) as threads:
                asked = threads.submit(httpx.post, f"{deployment.url}/generate", json=body, timeout=60)
                TierNode.wait_until(lambda: messages_of(client), lambda: "nothing was queued")
                [(queue, entry)] = messages_of(client)
                client.lpush(queue, entry, entry)
                os.kill(parent, signal.SIGCONT)
                answer = asked.result()
            TierNode.wait_until(lambda: not messages_of(client), lambda: deployment.output)
        lines = httpx.get(f"{deployment.url}/metrics").text.splitlines()

    assert answer.json()["text"] == "espresso"
    counted = [line for line in lines if line.startswith("forebay_requests_total{") and 'route="generate"' in line]
    assert [line.rsplit(" ", 1)[1] for line in counted] == ["1.0"]
    assert not [line for line in lines if line.startswith("forebay_quarantined_total{")]


def messages_of(client):
    """Every message that waits or that somebody has in hand, with the queue that it was put on."""
    found = []
    for key in client.scan_iter("*mm.*"):
        found += [(key, entry) for entry in client.lrange(key, 0, -1)]
    for key in client.scan_iter("*taken:*"):
        deployment, _, rest = key.partition(b"taken:")
        node, lane = rest.partition(b":")[0], rest.rpartition(b":")[2]
        found += [(deployment + b"mm." + node + b"." + lane, entry) for entry in client.lrange(key, 0, -1)]
    return found


def test_connections_that_break_under_load_lose_nothing(node):
    """The worker connects again and puts back what the lost connection had; what runs meanwhile runs once."""
    worker = node.started(children=2)
    for number in range(12):
        node.ask(f"r{number}", Order.TAKE_A_WHILE)
    for _ in range(3):
        time.sleep(0.4)
        for one in node.redis.client_list():
            if one["name"] == "forebay-celery":
                node.redis.client_kill_filter(_id=one["id"])

    for number in range(12):
        node.waits_for(f"r{number}", "parked")
    node.wait_until(node.is_quiet, lambda: worker.output)
    assert worker.process.poll() is None
    assert {node.record(f"r{number}").attempt for number in range(12)} == {1}
    assert sorted(info.rid for info in blocks(node)) == sorted(f"r{number}" for number in range(12))
