"""What an operator sees of a running deployment."""

from __future__ import annotations

import os
import re
import time

import httpx
import pytest

from forebay.client import Client, encode
from tests.support import media
from tests.support.deployment import Deployment

pytestmark = pytest.mark.system


def test_health_ready_models_and_processors(deployment: Deployment):
    """The process lives, work could be done now, and who can do it."""
    served = ["efficientnet-lite0", "qwen2-vl", "qwen3-vl", "whisper-tiny-en"]

    assert httpx.get(f"{deployment.url}/health").json() == {"status": "ok"}
    assert httpx.get(f"{deployment.url}/ready").json() == {"status": "ready", "models": served}
    models = {one["id"]: one["engine"] for one in httpx.get(f"{deployment.url}/v1/models").json()["data"]}
    assert models == {"efficientnet-lite0": True, "qwen2-vl": True, "qwen3-vl": False, "whisper-tiny-en": True}
    processors = httpx.get(f"{deployment.url}/v1/processors").json()["data"]
    assert [one["name"] for one in sorted(processors, key=lambda one: one["name"])] == served
    assert all(re.fullmatch("[0-9a-f]{16}", one["fingerprint"]) for one in processors)


def test_metrics_count_what_was_answered(deployment: Deployment, api: Client):
    """One more request, one more in the counter with its model and its end."""
    line = 'forebay_requests_total{code="ok",model="efficientnet-lite0",route="generate",state="done"}'

    def count() -> float:
        text = httpx.get(f"{deployment.url}/metrics").text
        return float(next((row.rsplit(" ", 1)[1] for row in text.splitlines() if row.startswith(line)), 0))

    before = count()
    api.generate(model="efficientnet-lite0", text="x", images=[media.plain_png(32, 32)])

    assert count() == before + 1


def test_metrics_count_what_was_refused_at_the_door(deployment: Deployment):
    """A request that never became one is seen all the same."""
    line = 'forebay_requests_total{code="invalid_json",model="",route="preprocess",state="rejected"}'

    httpx.post(f"{deployment.url}/v1/preprocess", content=b"{", headers={"Content-Type": "application/json"})

    assert line in httpx.get(f"{deployment.url}/metrics").text


def test_the_openapi_document_has_bodies_and_examples(deployment: Deployment):
    """Routes that read their bodies by hand are described all the same."""
    document = httpx.get(f"{deployment.url}/openapi.json").json()

    for path in ("/generate", "/v1/preprocess", "/v1/requests"):
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert "image_data" in content["schema"]["properties"]
        for example in content["examples"].values():
            answer = httpx.post(f"{deployment.url}/v1/preprocess", json=example["value"], timeout=30)
            assert answer.status_code == 200, (example, answer.text)


def test_children_are_pinned_each_to_its_own_core(deployment: Deployment):
    """With --cores 0,1 and two children, one core each; every one computes with one thread."""
    parent, *children = deployment.pids_of("worker")

    assert sorted(os.sched_getaffinity(child) for child in children) == [{0}, {1}]
    assert os.sched_getaffinity(parent) == {0, 1}


def test_flower_shows_the_task_and_nothing_of_its_payload(deployment: Deployment, api: Client):
    """A readable line: the model, the request id, how many items and bytes; never the media or the prompt."""
    secret = "a-secret-that-nobody-may-see"
    api.preprocess(model="qwen3-vl", text=secret, rid="seen-in-flower")

    page = ""
    give_up_at = time.monotonic() + 20
    while "seen-in-flower" not in page:
        assert time.monotonic() < give_up_at, page[:2000]
        time.sleep(0.3)
        page = httpx.get(f"{deployment.flower}/task/seen-in-flower.1").text
    assert "preprocess[qwen3-vl]" in page
    assert "rid=seen-in-flower attempt=1 items=0 media=0KiB" in page
    assert secret not in page


def test_logs_are_events_without_payload(deployment: Deployment, api: Client):
    """Whoever reads the log can follow a request by its id, and sees no media and no prompt."""
    secret = "another-secret-of-the-caller"
    api.generate(model="efficientnet-lite0", text=secret, images=[media.plain_png(40, 40)], rid="followed")

    assert deployment.wait_for(r"(admitted) .*rid=followed", 5)
    assert deployment.wait_for(r"(request ended) .*rid=followed .*state=done", 5)
    assert secret not in deployment.output
    assert encode(media.plain_png(40, 40))[:60] not in deployment.output
