"""Which tasks the parent stops, and how: asked, then killed; never one that is young or wanted."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.support.media import plain_png
from tests.support.node import SECRET
from workers.unwanted import Watch

pytestmark = pytest.mark.service

DEAF = "import signal, time; signal.signal(signal.SIGUSR2, signal.SIG_IGN); print(flush=True); time.sleep(60)"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not listen."""
    process = subprocess.Popen([sys.executable, "-c", DEAF], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def begun(node, child, *, owner: str = ""):
    """A task of that child, as Celery's parent knows it."""
    message = node.task(node.reference(plain_png(2, 3)))
    node.way.begin(owner=owner or f"worker-{child.pid}-0123")
    return SimpleNamespace(id="r1.1", _payload=([message], {}, {}), worker_pid=child.pid)


def watch(node) -> Watch:
    return Watch(node.way.client, node.way.moves.keys, SECRET)


def is_killed(child) -> bool:
    try:
        return child.wait(1) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        return False


def looks(watching: Watch, request, times: int) -> None:
    for _ in range(times):
        watching.look([request])


def test_what_is_wanted_is_left_alone(node, child):
    """However long it takes; the limits are somebody else's."""
    looks(watch(node), begun(node, child), 5)

    assert not is_killed(child)


def test_what_was_cancelled_is_asked_first_and_then_killed(node, child):
    """Two rounds are its chance to give up in order."""
    request = begun(node, child)
    watching = watch(node)
    node.way.cancel("r1")

    looks(watching, request, 3)  # the first time it was too young, the second it was asked
    assert not is_killed(child)
    looks(watching, request, 1)

    assert is_killed(child)


@pytest.mark.parametrize("what", ["forgotten", "another's", "used again"])
def test_what_is_no_longer_the_childs_is_stopped(node, child, what):
    """Its record has gone, has another owner, or is another request's of the same id."""
    request = begun(node, child, owner="worker-1-0123" if what == "another's" else "")
    record = node.way.moves.keys.record("r1")
    if what == "forgotten":
        node.way.client.delete(record)
    if what == "used again":
        node.way.client.hset(record, "token", "t2")

    looks(watch(node), request, 4)

    assert is_killed(child)


def test_what_this_child_has_parked_is_not_interrupted(node, child):
    """It only tidies up."""
    request = begun(node, child)
    node.way.client.hset(node.way.moves.keys.record("r1"), "state", "parked")

    looks(watch(node), request, 5)

    assert not is_killed(child)
