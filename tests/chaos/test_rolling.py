"""A rolling restart under load: whatever was accepted is answered, and right."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import httpx
import pytest

from forebay.states import State
from tests.chaos.gallery import hang
from tests.chaos.law import judge
from tests.chaos.load import Load
from tests.chaos.site import Site, staged, strike

pytestmark = [pytest.mark.system, pytest.mark.alone]

AT_THE_DOOR = {"no_workers", "engine_away"}
"""What a new request may be told while the only worker or scheduler of its node is away: it was never accepted."""
KINDS = ["generate", "preprocess", "async", "stream"]


def restart(site: Site, part: str) -> None:
    """Ask a part to stop, as an operator who brings a new release, and wait until its successor is up."""
    [old, *_] = site.pids(part)
    assert strike(old, signal.SIGTERM)
    give_up_at = time.monotonic() + 60
    while old in site.pids(part) or not site.pids(part) or not is_ready(site):
        assert time.monotonic() < give_up_at, f"{part} does not come back"
        time.sleep(0.1)
    time.sleep(2.0)  # of load on the new one


def is_ready(site: Site) -> bool:
    """Whether the deployment says that it could answer: a part that has withdrawn and is not back makes it say no."""
    try:
        return httpx.get(f"{site.url}/ready", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def test_restarting_every_part_under_load_fails_no_accepted_request(tmp_path: Path, monkeypatch):
    """Each drains: it finishes what it has begun, gives back what it has not, and takes nothing new."""
    monkeypatch.setattr("tests.chaos.load.KINDS", KINDS)
    with staged(tmp_path) as site:
        pictures = hang(site.url)
        with Load(site.url, pictures, seed=11) as load:
            for part in ("worker", "api", "scheduler", "worker", "api"):
                restart(site, part)
        verdict = judge(site, load.history, pictures)

    assert verdict.faults == {name: [] for name in verdict.faults}
    assert set(verdict.ends) <= {State.DONE}
    assert {asked.code for asked in load.history if asked.told == "refused"} <= AT_THE_DOOR
    assert [asked.rid for asked in load.history if asked.told == "lost"] == []
    assert verdict.ends[State.DONE] > 10  # what is refused at the door while a part is away counts for nothing
