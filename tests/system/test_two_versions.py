"""Two versions of a processor at once: side by side on own queues, and the next in the shadow of the present."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from forebay.client import Client, RequestFailedError
from launch.redis_server import free_port
from tests.support.installation import Installation, installed, wait_until
from tests.support.media import plain_png
from tests.support.valkey import running_server

pytestmark = pytest.mark.system

MODEL = "toy"
PNG, TALL = plain_png(2, 3), plain_png(2, 9)
BLUE, GREEN = ("--processor", "tests.support.versions:Blue"), ("--processor", "tests.support.versions:Green")
EXPECTED = {"blue": [20.0, 40.0, 60.0], "green": [20.0, 40.0, 60.25]}


class Site:
    """An API and a node, ``blue``."""

    def __init__(self, tier: Installation, redis_url: str) -> None:
        self.tier, self.redis_url = tier, redis_url
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        ready = {"FOREBAY_READY_FOR": "preprocess", "FOREBAY_LOG_LEVEL": "WARNING"}
        tier.start("api", "--port", str(port), model="", **ready)
        tier.start("worker", "--workers", "1", *BLUE, model=MODEL)
        wait_until(self.is_ready, "it does not become ready")
        self.api = Client(self.url)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready").status_code == 200
        except httpx.TransportError:
            return False

    def nodes(self) -> dict[str, str]:
        """The fingerprint of the model's processor, by node."""
        return {one["node"]: one["fingerprint"] for one in self.processors()}

    def processors(self) -> list[dict]:
        return httpx.get(f"{self.url}/v1/processors").json()["data"]

    def prepared(self, picture: bytes = PNG, **fields):
        return self.api.preprocess(model=MODEL, input_ids=[1, 7], images=[picture], features="base64", **fields)

    def refusal(self, picture: bytes) -> str:
        """Why a picture is refused; empty where it is not."""
        try:
            self.prepared(picture)
        except RequestFailedError as error:
            return str(error)
        return ""

    def shown(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "REDIS_URL": self.redis_url, "FOREBAY_DEPLOYMENT": "test"}
        command = [sys.executable, "-m", "forebay", "shadow", "show", MODEL, *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_server(tmp_path_factory.mktemp("redis")) as url, installed(url, "test", f"blue-{os.getpid()}") as tier:
        site = Site(tier, url)
        yield site
        site.api.close()


def last_row(prepared) -> list[float]:
    return np.frombuffer(base64.b64decode(prepared.items[0].base64), "<f4").reshape(-1, 3)[-1].tolist()


def stop(process: subprocess.Popen[str]) -> str:
    """Ask it to, and wait; what it has said."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


def test_the_next_version_runs_in_the_shadow_of_the_present_one(site: Site):
    """Every answer is the present one's. What differs is counted, told with both sides, and shown in the metrics."""
    shadow = site.tier.start("shadow", "run", "--share", "1", *GREEN, model=MODEL)
    wait_until(lambda: site.tier.redis.exists(site.tier.keys.shadow(MODEL)), "the shadow does not ask")

    def is_compared(least: int) -> bool:
        counts = json.loads(site.shown("--json").stdout)["counts"]
        return counts.get("compared", 0) >= least

    # The worker looks every two seconds whether anybody wants samples.
    wait_until(lambda: last_row(site.prepared()) == EXPECTED["blue"] and is_compared(1), "nothing is compared")
    tall = site.prepared(TALL, rid="tall")

    wait_until(lambda: "in refused" in json.loads(site.shown("--json").stdout)["counts"], "the refusal is not told")
    found = json.loads(site.shown("--json").stdout)
    assert found["max_abs_error"] == 0.25
    assert found["counts"]["different"] == found["counts"]["compared"]
    [note] = [note for note in found["notes"] if note["rid"] == "tall"]
    assert note["said"] == ["image_too_large: image_data[0] has 9 rows; this release takes 8"]
    assert note["fingerprints"][0] == tall.fingerprint != note["fingerprints"][1]
    told = site.shown()
    assert told.returncode == 1
    assert "item 0: values differ by 0.25 at most" in told.stdout
    metrics = httpx.get(f"{site.url}/metrics").text
    assert f'forebay_shadow_max_abs_error{{model="{MODEL}"}} 0.25' in metrics
    assert f'forebay_shadow_differences_total{{kind="refused",model="{MODEL}"}} 1.0' in metrics
    assert "prepared otherwise" in stop(shadow)
    assert not site.tier.redis.exists(site.tier.keys.shadow(MODEL))


def test_two_versions_are_served_side_by_side_and_one_is_taken_back(site: Site):
    """Each from a queue of its own, under its own fingerprint; the present one serves on when the next one goes."""
    before = site.prepared()
    name = f"a-green-{os.getpid()}"
    green = site.tier.start("worker", "--workers", "1", *GREEN, model=MODEL, FOREBAY_NODE=name)
    wait_until(lambda: len(site.nodes()) == 2, "the second node is not announced")
    by_node = site.nodes()

    answers = {one.node: one for one in (site.prepared() for _ in range(40))}  # nodes that are equally empty share
    refusals = [error for error in (site.refusal(TALL) for _ in range(40)) if error]
    during = answers[name]

    assert len(set(by_node.values())) == 2
    assert set(answers) == set(by_node)
    assert refusals
    assert all("this release takes 8" in error for error in refusals)
    assert (last_row(before), last_row(during)) == (EXPECTED["blue"], EXPECTED["green"])
    assert [by_node[one.node] for one in (before, during)] == [before.fingerprint, during.fingerprint]
    stop(green)
    wait_until(lambda: len(site.nodes()) == 1, "the second node is not withdrawn")
    assert last_row(site.prepared()) == EXPECTED["blue"]
    assert site.prepared(TALL).items[0].shape == (9, 3)
    shutil.rmtree(site.tier.folder.with_name(f"forebay-test-{name}"))  # a pool outlives its workers


def test_no_shadow_without_a_model_or_with_two(site: Site):
    """One line, and exit status 2."""
    for models in ((), ("--model", "a", "--model", "b")):
        done = site.tier.start("shadow", "run", *models, model="")
        said, _ = done.communicate(timeout=60)
        assert done.returncode == 2, said


def test_nothing_of_a_model_is_shown_where_nothing_was_compared(site: Site):
    """Neither equal nor different."""
    done = subprocess.run(
        [sys.executable, "-m", "forebay", "shadow", "show", "nobody", "--redis", site.redis_url],
        capture_output=True, text=True, timeout=60, env={**os.environ, "FOREBAY_DEPLOYMENT": "test"},
    )  # fmt: skip

    assert (done.returncode, done.stdout.strip()) == (3, "nothing was compared of nobody; no shadow of it is running")
