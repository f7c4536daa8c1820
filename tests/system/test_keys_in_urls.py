"""A URL full of keys on its way through a whole deployment: API, worker, scheduler, Redis, Flower and their logs."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.api.fetch.secrets import AUTHORIZATION, SIGNATURE, decoded, repeated_in, secret_url
from tests.support.deployment import Deployment
from tests.support.overheard import overheard
from tests.support.photos import HOST, Photos

pytestmark = pytest.mark.system


def test_a_key_in_a_url_reaches_its_host_and_nothing_else(deployment: Deployment, loopback_photos: Photos):
    """One that is answered for, and one that is not there: in no log, message, event or record, and not in Flower."""
    there, gone = (secret_url(loopback_photos.port, path, HOST) for path in ("/photo", "/gone"))
    body = {"model": "efficientnet-lite0", "text": "x"}
    with overheard(f"unix://{deployment.folders[1]}/redis.sock") as said:
        answers = [
            httpx.post(f"{deployment.url}/generate", json={**body, "image_data": there, "rid": "seen"}, timeout=60),
            httpx.post(f"{deployment.url}/generate", json={**body, "image_data": gone, "rid": "gone"}, timeout=60),
            *(httpx.get(f"{deployment.url}/v1/requests/{rid}") for rid in ("seen", "gone")),
            httpx.get(f"{deployment.url}/metrics"),
        ]
        page = flower_page(deployment.flower, "seen")

    assert [one.status_code for one in answers] == [200, 400, 200, 200, 200]
    assert answers[0].json()["text"] == "espresso"
    assert loopback_photos.asked[-2:] == [
        (f"{path}?X-Amz-Signature={SIGNATURE}", AUTHORIZATION) for path in ("/photo", "/gone")
    ]
    assert any("task-succeeded" in decoded(line) for line in said)  # events are among what was overheard
    for text in (deployment.output, "\n".join(said), page, *(f"{one.headers}\n{one.text}" for one in answers)):
        assert text
        assert repeated_in(text) == []


def flower_page(url: str, rid: str) -> str:
    """What Flower shows of a task, once it has ended."""
    give_up_at = time.monotonic() + 20
    while time.monotonic() < give_up_at:
        page = httpx.get(f"{url}/task/{rid}.1").text
        if "SUCCESS" in page:
            return page
        time.sleep(0.2)
    raise AssertionError("Flower has not seen the task end")
