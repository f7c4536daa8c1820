"""What a process knows of engines that are away."""

from __future__ import annotations

import pytest

from api import register as module
from api.register import Register
from handoff.nodes import SILENT_MS, announce

pytestmark = pytest.mark.service


@pytest.fixture
def register(redis, keys):
    return Register(redis, keys)


def go_silent(client, keys, for_ms: int) -> None:
    """The scheduler's last word is so old; the node's worker lives."""
    part = "engine:toy"
    seconds, micros = client.time()
    at = seconds * 1000 + micros // 1000 - for_ms
    client.hset(keys.node("n1"), part, f'{{"at": {at}}}')


async def test_a_process_that_has_just_started_knows_who_was_there(register, client, keys):
    """It was killed with the scheduler; the next one asks Redis, not its own memory."""
    announce(client, keys, "n1", "workers", {"processors": []})
    go_silent(client, keys, SILENT_MS + 1000)

    [node] = await register.nodes()

    assert (node.engines, register.had_engines()) == ((), {"toy"})


async def test_after_some_minutes_nobody_is_expected_back(register, client, keys):
    """Then there is no engine, and that is told."""
    announce(client, keys, "n1", "workers", {"processors": []})
    go_silent(client, keys, int(module._LATELY_S * 1000) + 1000)

    await register.nodes()

    assert register.had_engines() == set()
