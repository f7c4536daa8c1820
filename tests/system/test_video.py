"""A video through the whole tier: planned, prepared, found again, answered about, and refused where it is damaged."""

from __future__ import annotations

import base64

import httpx
import pytest

from tests.support.deployment import Deployment
from tests.support.media import encoded as picture
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


def listed(count: int = 8, **more) -> dict:
    """A video as its frames, each a PNG."""
    files = [picture(pixels, "PNG") for pixels in shades(count)]
    return {"frames": [f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in files], **more}


def test_a_list_of_frames_is_a_video(http):
    """One item, planned, made, found again; the rate that its caller names says how many frames are looked at."""
    asked = {"model": "qwen2-vl", "text": QUESTION, "video_data": listed()}
    plan = http.post("/v1/plan", json=asked).json()
    [made], [again] = (http.post("/v1/preprocess", json=asked).json()["items"] for _ in range(2))
    quick = http.post("/v1/preprocess", json={**asked, "video_data": listed(fps=4)}).json()

    assert plan["items"][0]["feature"]["shape"] == made["feature"]["shape"]
    assert made["model_specific_data"]["video_grid_thw"][0] == 4  # at two a second, all eight
    assert quick["items"][0]["model_specific_data"]["video_grid_thw"][0] == 2
    assert (made["cached"], again["cached"]) == (False, True)
    assert again["feature"]["sha256"] == made["feature"]["sha256"]


def test_a_list_of_frames_in_a_conversation_is_answered(http):
    """Uploads may stand for frames."""
    video = listed(4)
    upload = http.post(
        "/v1/media", content=picture(shades(1)[0], "PNG"), headers={"Content-Type": "application/octet-stream"}
    ).json()
    parts = [
        {"type": "video_url", "video_url": {"frames": [upload["id"], *video["frames"][1:]]}},
        {"type": "text", "text": "?"},
    ]
    asked = {"model": "qwen2-vl", "messages": [{"role": "user", "content": parts}], "max_tokens": 2}

    answer = http.post("/v1/chat/completions", json=asked)

    assert answer.status_code == 200, answer.text


def test_frames_of_two_sizes_are_a_mistake_that_names_both(http):
    """A 400."""
    video = listed(3)
    odd = base64.b64encode(picture(shades(1, height=50)[0], "PNG")).decode()
    video["frames"].append(f"data:image/png;base64,{odd}")

    error = http.post("/v1/preprocess", json={"model": "qwen2-vl", "text": QUESTION, "video_data": video})

    assert (error.status_code, error.json()["error"]["code"]) == (400, "unsuitable_video")
    assert error.json()["error"]["message"] == "video_data.frames[3] is 64x50 pixels, the first frame 64x48"


def test_each_video_of_a_request_has_its_own_rate(http):
    """C030: planned as made; a list for another number of videos is refused with both lengths."""
    video = body()["video_data"]
    asked = {"model": "qwen2-vl", "text": QUESTION + QUESTION, "video_data": [video, video]}
    plan = http.post("/v1/plan", json={**asked, "multimodal_video_fps": [5, 10]}).json()
    made = http.post("/v1/preprocess", json={**asked, "multimodal_video_fps": [5, 10]}).json()
    refused = http.post("/v1/preprocess", json={**asked, "multimodal_video_fps": [5, 10, 2.5]})

    grids = [[item["model_specific_data"]["video_grid_thw"][0] for item in one["items"]] for one in (plan, made)]
    assert grids == [[5, 10], [5, 10]]
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "length_mismatch")
    assert refused.json()["error"]["message"] == "multimodal_video_fps has 3 entries for 2 videos: [5, 10, 2.5]"
