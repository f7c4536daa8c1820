"""``forebay pool check``: what the janitor would do, without doing it."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from forebay import Prompt
from forebay.task import Kind, TaskBody, seal
from handoff.keys import LANES
from handoff.pool import FeatureCache
from handoff.scripts import perform
from handoff.slot import Slot
from launch.pool import pool
from tests.support.media import plain_png
from tests.support.neighbour import neighbour
from tests.support.node import SECRET, made_node
from tests.support.ways import MODEL, NODE
from workers import sweep
from workers.about import About

pytestmark = pytest.mark.service

BODY = seal(TaskBody(Kind.GENERATE, Prompt(ids=(1,))).pack(), SECRET)


@pytest.fixture
def node(client, moves, shm, tmp_path, redis_url, monkeypatch):
    """A node on which a worker has started once, and whose blocks are all older than the grace period."""
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setattr(sweep, "_GRACE_S", -1.0)
    with made_node(client, moves, shm, tmp_path) as node:
        About("test", NODE, redis_url, (MODEL,)).write(shm)
        yield node


def check(node):
    return CliRunner().invoke(pool, ["--dir", str(node.folder), "check"], env={"COLUMNS": "200"})


def state(node):
    """Everything that a janitor could change."""
    keys = sorted(node.way.client.keys())
    pool, folder = node.pool, node.folder
    return (
        [node.way.client.dump(key) for key in keys],
        pool.blocks(),
        pool.waiting(),
        FeatureCache(pool).flights(),
        {path.name: path.read_bytes() for path in folder.iterdir()},
    )


def test_a_node_in_order_has_nothing_to_remove(node):
    """Exit status 0, and one sentence; also while requests are under way."""
    node.driver().run(node.task(rid="r1"))

    ended = check(node)

    assert ended.exit_code == 0
    assert ended.output == "1 of 1 live requests looked at\nnothing to remove, nothing to replay\n"


def test_everything_that_the_dead_have_left_is_named(node):
    """Exit status 1, and a row for each; the requests too that would be ended or queued again."""
    with neighbour(node.folder) as dead, neighbour(node.folder) as living:
        for one in (dead, living):
            one.tell("write", 1, 1 << 18, "r2")
        dead.tell("park", dead.tell("write", 1, 1000, "r3"))
        dead.tell("wait", 1000)
        dead.tell("make", "ab" * 32)
        os.utime(dead.tell("draft", "note"), (1, 1))
        for rid in ("again", "late"):
            node.way.accept(rid, rid)
            node.way.enqueue(rid, rid, body=BODY)
            node.way.begin(rid, rid, owner=dead.owner)
        node.way.pass_deadline("late")
        dead.kill()

        ended = check(node)

        assert ended.exit_code == 1
        assert "2 of 2 live requests looked at" in ended.output
        rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.output.splitlines() if "│" in line]
        assert [row[:4] for row in rows] == [
            ["remove", "block", "slot 0, writing, of request r2", f"its writer {dead.owner} has died"],
            ["remove", "block", "slot 2, parked, of request r3", "no live request leads to it"],
            ["remove", "place in line", dead.owner, "it has died"],
            ["remove", "cache entry in the making", f"by {dead.owner}", "it has died"],
            ["remove", "lock file", dead.owner, "nobody holds its lock"],
            ["remove", "draft", rows[5][2], "nobody holds its lock"],
            ["expire", "request", "late", "processing, attempt 1"],
            ["next attempt", "request", "again", "processing, attempt 1"],
        ]
        assert rows[0][4] == "0.2"


def test_a_check_changes_nothing(node):
    """However much there is to do: neither in the pool, nor in the folder, nor in Redis."""
    with neighbour(node.folder) as dead:
        dead.tell("write", 1, 1000, "r2")
        dead.tell("wait", 1000)
        node.way.processing("r1")
        node.way.make_due("r1")
        dead.kill()
        before = state(node)

        assert [check(node).exit_code for _ in range(2)] == [1, 1]

        assert state(node) == before


def test_a_folder_without_a_note_says_so(node):
    """Whether a request leads to a block is known by Redis alone."""
    (node.folder / "about.json").unlink()

    ended = check(node)

    assert ended.exit_code == 2
    assert f"Error: {node.folder}: no worker has left a note there of the Redis that it uses" in ended.output


def test_a_redis_that_is_away_says_so(node):
    """Nothing is called nobody's by one who could not ask."""
    About("test", NODE, "redis://127.0.0.1:1/0", (MODEL,)).write(node.folder)

    ended = check(node)

    assert ended.exit_code == 2
    assert "Error: REDIS_URL: no Redis answers at redis://127.0.0.1:1/0" in ended.output
    assert "Traceback" not in ended.output


def test_a_redis_that_goes_away_meanwhile_says_so(node, monkeypatch):
    """As any other failure: one line."""
    monkeypatch.setattr("launch.pool.check.require", lambda url: None)
    About("test", NODE, "redis://127.0.0.1:1/0", (MODEL,)).write(node.folder)

    ended = check(node)

    assert (ended.exit_code, ended.output.splitlines()[-1]) == (2, "Error: the request store cannot be reached")


def test_a_password_comes_from_the_environment(node, redis_url, monkeypatch):
    """The note keeps none, and says that it lacks one."""
    About("test", NODE, "redis://…@host:6379/0", (MODEL,)).write(node.folder)
    assert f"a password, which is not in {node.folder}: set REDIS_URL" in check(node).output

    monkeypatch.setenv("REDIS_URL", redis_url)

    assert check(node).exit_code == 0


def test_lapsed_leases_and_ended_requests_are_named(node):
    """The janitor would park the one again, and free the blocks of the other."""
    for rid in ("r1", "r2"):
        node.driver().run(node.task(node.reference(plain_png(2, 3)), rid=rid, token=f"token of {rid}"))
    assert [one.rid for one in node.way.claim(most=1)] == ["r1"]
    node.way.let_lapse("r1")
    node.way.cancel("r2")
    before = state(node)

    ended = check(node)

    assert ended.exit_code == 1
    assert "its scheduler's lease has ended" in ended.output
    assert "it ended while it waited" in ended.output
    assert state(node) == before


def test_what_three_schedulers_have_died_over_is_named(node):
    """The janitor would abandon it, and park nothing."""
    node.driver().run(node.task(node.reference(plain_png(2, 3))))
    for number in (1, 2, 3):
        node.way.claim(f"c{number}")
        node.way.let_lapse()
        perform(node.way.client, node.way.moves.lapse(NODE, MODEL))

    told = check(node)

    assert told.exit_code == 1
    assert "abandon" in told.output
    assert "every attempt has lost its worker or its scheduler" in told.output
    assert "park again" not in told.output


def test_messages_in_the_hand_of_the_dead_are_named(node):
    """They are on no queue, and nobody works on them until a janitor comes round."""
    node.task(node.reference(plain_png(2, 3)))
    assert perform(node.way.client, Slot(node.way.moves.keys, NODE, "parent-1-dead").take(LANES)) is not None
    before = state(node)

    told = check(node)

    assert told.exit_code == 1
    assert "1 in the hand of parent-1-dead" in told.output
    assert state(node) == before


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"models": [], "from": "a later release"}'])
def test_a_note_of_another_release_says_so(node, text):
    """In one line."""
    (node.folder / "about.json").write_text(text)

    ended = check(node)

    assert ended.exit_code == 2
    assert "about.json: not a note that this release reads" in ended.output
