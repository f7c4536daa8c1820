"""A video through the whole tier: planned, prepared, found again, answered about, and refused where it is damaged."""

from __future__ import annotations

import base64

import httpx
import pytest

from tests.support.deployment import Deployment
from tests.support.videos import encoded, shades

pytestmark = pytest.mark.system

QUESTION = "<|vision_start|><|video_pad|><|vision_end|>What happens?"
CLIP = encoded(shades(60))


@pytest.fixture
def http(deployment: Deployment):
    with httpx.Client(base_url=deployment.url, timeout=60) as http:
        yield http


def body(data: bytes = CLIP, model: str = "qwen2-vl", **more) -> dict:
    url = f"data:video/mp4;base64,{base64.b64encode(data).decode()}"
    return {"model": model, "text": QUESTION, "video_data": url, **more}


@pytest.mark.parametrize(("model", "spans"), [("qwen2-vl", 1), ("qwen3-vl", 2)])
def test_a_video_is_planned_then_prepared_as_planned(http, model, spans):
    """Tokens, grid, shape and times come out as foretold; the second time they are found."""
    plan = http.post("/v1/plan", json=body(model=model)).json()
    real = http.post("/v1/preprocess", json=body(model=model)).json()
    again = http.post("/v1/preprocess", json=body(model=model)).json()

    [foreseen], [made] = plan["items"], real["items"]
    assert plan["prompt_tokens"] == len(real["input_ids"])
    assert foreseen["feature"]["shape"] == made["feature"]["shape"]
    assert foreseen["model_specific_data"] == made["model_specific_data"]
    assert made["model_specific_data"]["video_grid_thw"][0] == 2
    assert (made["modality"], len(made["offsets"])) == ("video", spans)
    assert (made["cached"], again["items"][0]["cached"]) == (False, True)
    assert again["items"][0]["feature"]["sha256"] == made["feature"]["sha256"]


def test_a_request_may_say_how_many_frames(http):
    """And gets its own features for it."""
    answer = http.post("/v1/preprocess", json=body(multimodal_video_num_frames=8)).json()

    assert answer["items"][0]["model_specific_data"]["video_grid_thw"][0] == 4


def test_a_model_answers_about_a_video(http):
    """From bytes to tokens."""
    answer = http.post("/generate", json=body(sampling_params={"max_new_tokens": 3})).json()

    assert answer["meta_info"]["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("data", "more", "code", "said"),
    [
        (CLIP[: len(CLIP) * 9 // 10], {}, "damaged_video", "cannot be opened"),
        (b"#EXTM3U\nhttp://localhost/a.ts\n", {}, "unsupported_video", "video_data"),
        (
            CLIP,
            {"multimodal_video_num_frames": 99},
            "unsuitable_video",
            "100 frames are asked for, of a video that has 60",
        ),
        (CLIP, {"multimodal_video_fps": -1}, "invalid_extensions", "multimodal_video_fps"),
        (CLIP, {"model": "efficientnet-lite0"}, "unsupported_modality", "takes no video"),
    ],
)
def test_a_mistake_has_its_code_and_its_sentence(http, data, more, code, said):
    """A 400 that says what to mend."""
    answer = http.post("/v1/preprocess", json={**body(data), **more})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), answer.text
    assert said in answer.json()["error"]["message"]
