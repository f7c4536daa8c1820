"""One tier a test, whose scheduler looks and renews with every turn instead of now and then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay import Processor
from handoff.connection import Client
from tests.scheduler.tier import Echo, Tier, make_tier


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in these tests waits for a clock."""
    monkeypatch.setattr("scheduler.loop._LOOK_EVERY_S", 0.0)
    monkeypatch.setattr("scheduler.loop._RENEW_EVERY_S", 0.0)
    monkeypatch.setattr("scheduler.intake.MAX_BLOCK_MS", 10)


@pytest.fixture
def tier_with(restless: None, client: Client, shm: Path, tmp_path: Path) -> Callable[[Echo, Processor | None], Tier]:
    """A tier with an engine, and perhaps a processor, of the test's own."""
    return lambda engine, processor=None: make_tier(client, shm, tmp_path, engine, processor)


@pytest.fixture
def tier(tier_with: Callable[..., Tier]) -> Tier:
    return tier_with(Echo())
