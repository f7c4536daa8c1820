"""``/v1/plan`` and uploads through the whole tier, with the models that ship."""

from __future__ import annotations

import httpx
import pytest

from tests.support import media
from tests.support.deployment import Deployment

pytestmark = pytest.mark.system

QUESTION = "<|vision_start|><|image_pad|><|vision_end|>What is in this picture?"


@pytest.fixture
def http(deployment: Deployment):
    with httpx.Client(base_url=deployment.url, timeout=60) as http:
        yield http


def uploaded(http: httpx.Client, path) -> str:
    answer = http.post("/v1/media", content=path.read_bytes())
    assert answer.status_code == 201
    return answer.json()["id"]


@pytest.mark.parametrize("model", ["qwen2-vl", "qwen3-vl"])
def test_an_uploaded_picture_is_planned_then_prepared_as_planned(http, model):
    """The bytes are sent once; tokens, grid, shape and bytes come out as foretold."""
    body = {"model": model, "text": QUESTION, "image_data": uploaded(http, media.rocket())}

    plan = http.post("/v1/plan", json=body).json()
    real = http.post("/v1/preprocess", json=body).json()

    assert plan["prompt_tokens"] == len(real["input_ids"])
    [foreseen], [made] = plan["items"], real["items"]
    assert foreseen["feature"]["shape"] == made["feature"]["shape"]
    assert foreseen["model_specific_data"] == made["model_specific_data"]
    assert foreseen["digest"] == made["digest"] == body["image_data"]
    assert plan["fits_pool"]
    assert plan["cpu_s"] > 0 or foreseen["cached"]
    again = http.post("/v1/plan", json=body).json()
    assert again["items"][0]["cached"]
    assert again["cpu_s"] == 0


@pytest.mark.parametrize(
    ("model", "field", "path"),
    [("efficientnet-lite0", "image_data", media.coffee), ("whisper-tiny-en", "audio_data", media.fox_recording)],
)
def test_models_that_read_no_prompt_are_planned_too(http, model, field, path):
    """Their features have one shape, whatever comes."""
    body = {"model": model, "text": "x", field: uploaded(http, path())}

    plan = http.post("/v1/plan", json=body).json()
    real = http.post("/v1/preprocess", json=body).json()

    assert plan["items"][0]["feature"]["shape"] == real["items"][0]["feature"]["shape"]
    assert plan["limits"]["item_bytes"] == 64 << 20


def test_a_batch_is_planned_prompt_by_prompt(http):
    """What is wrong with one is told in its place."""
    digest = uploaded(http, media.coffee())
    body = {"model": "qwen2-vl", "text": [QUESTION, "no placeholder"], "image_data": [digest, digest]}

    good, bad = http.post("/v1/plan", json=body).json()

    assert good["items"][0]["tokens"] > 0
    assert bad["error"]["code"] == "placeholder_mismatch"
