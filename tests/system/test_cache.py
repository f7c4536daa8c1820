"""The feature cache and smaller features, through the whole tier as a user runs it."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from forebay.client import Client, PreparedItem
from tests.support import media
from tests.support.deployment import Deployment, running
from tests.support.long import only_long

pytestmark = pytest.mark.system

QUESTION = "<|vision_start|><|image_pad|><|vision_end|>What is in this picture?"


def new_picture(seed: int) -> bytes:
    """A picture that no other test has sent."""
    pixels = np.random.default_rng(seed).integers(0, 256, (224, 280, 3), np.uint8)
    return media.encoded(pixels, "PNG")


def item_of(api: Client, picture: bytes | Path, text: str = QUESTION, **more: object) -> PreparedItem:
    answer = api.preprocess(model="qwen2-vl", text=text, images=[picture], **more)
    return answer.items[0]


def metric(url: str, name: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return float(next(line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"{name}{{")))


def test_two_prompts_about_one_picture_share_its_features(api: Client):
    """The second says so, and has the same bytes."""
    picture = new_picture(1)

    first = item_of(api, picture)
    second = item_of(api, picture, "Look: <|vision_start|><|image_pad|><|vision_end|> Where was this taken?")

    assert (first.is_cached, second.is_cached) == (False, True)
    assert first.raw["feature"] == second.raw["feature"]
    assert first.hash == second.hash
    assert first.spans != second.spans


def test_the_cache_survives_its_workers(api: Client, deployment: Deployment):
    """Every child is killed; their successors find what they left."""
    picture = new_picture(2)
    before = item_of(api, picture)
    children = deployment.pids_of("worker")[1:]

    for child in children:
        os.kill(child, signal.SIGKILL)
    after = item_of(api, picture)

    assert after.raw == before.raw | {"cached": True}


def test_many_at_once_about_one_picture_make_it_once(api: Client, deployment: Deployment):
    """Twelve callers, one decode; the counters tell."""
    time.sleep(2.2)  # a node announces its counters every two seconds
    before = metric(deployment.url, "forebay_cache_misses_total")
    picture = new_picture(3)

    with ThreadPoolExecutor(12) as callers:
        items = list(callers.map(lambda number: item_of(api, picture, f"{number} {QUESTION}"), range(12)))

    assert len({item.sha256 for item in items}) == 1
    assert sum(not item.is_cached for item in items) == 1
    time.sleep(2.2)
    assert metric(deployment.url, "forebay_cache_misses_total") == before + 1
    assert metric(deployment.url, "forebay_cache_entries") >= 1


@pytest.fixture(scope="module")
def small(qwen_folder: Path):
    """Pixels as bytes, and nothing kept."""
    model = ["--model", f"qwen2-vl={qwen_folder}", "--feature-dtype", "uint8"]
    with running([*model, "--cache-bytes", "0", "--no-flower", "--workers", "1"]) as deployment:
        yield deployment


@only_long
def test_with_the_cache_off_nothing_is_kept(small: Deployment):
    """One switch."""
    picture = new_picture(4)
    with Client(small.url) as api:
        assert [item_of(api, picture).is_cached for _ in range(2)] == [False, False]
    time.sleep(2.2)
    assert metric(small.url, "forebay_cache_entries") == 0
    assert metric(small.url, "forebay_cache_misses_total") == 0


@only_long  # engines and kernels are held to it by themselves
def test_pixels_as_bytes_are_eight_times_smaller_and_lead_to_the_same_answer(small: Deployment, api: Client):
    """The model cannot tell how its features came."""
    question = {"model": "qwen2-vl", "text": QUESTION, "images": [media.cat()]}
    sampling = {"sampling_params": {"max_new_tokens": 8}}
    with Client(small.url) as other:
        packed = other.preprocess(**question, features="base64").items[0].raw["feature"]
        plain = api.preprocess(**question).items[0].raw["feature"]

        assert (packed["dtype"], plain["dtype"]) == ("uint8", "float32")
        assert 4 * np.prod(plain["shape"]) == 8 * np.prod(packed["shape"])
        assert as_model_sees_it(packed) == plain["sha256"]
        assert other.generate(**question, **sampling).text == api.generate(**question, **sampling).text


def as_model_sees_it(packed: dict) -> str:
    """What docs/features.md says a reader does, in NumPy; the digest of the result."""
    import base64

    rows, channels, values = packed["shape"]
    told = packed["normalisation"]
    pixels = np.frombuffer(base64.b64decode(packed["base64"]), np.uint8).reshape(rows, channels, 1, values)
    mean, std = (np.array(told[name], np.float32).reshape(1, channels, 1, 1) for name in ("mean", "std"))
    whole = np.repeat((pixels.astype(np.float32) - mean) / std, told["copies"], axis=2)
    return hashlib.sha256(np.ascontiguousarray(whole).tobytes()).hexdigest()
