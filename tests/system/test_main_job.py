"""The whole way of a request, through real processes: HTTP, Redis, Celery, shared memory, scheduler, model."""

from __future__ import annotations

import base64
import hashlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest

from forebay.client import Client, RequestFailedError, encode
from tests.support import media
from tests.support.deployment import Deployment
from tests.support.tiny_qwen import transformers

pytestmark = pytest.mark.system

QUESTION = "<|vision_start|><|image_pad|><|vision_end|>What is in this picture?"
FOX = "The quick brown fox jumps over the lazy dog."


def pool_blocks(url: str) -> float:
    """What ``/metrics`` says of blocks in the pool, once it had time to hear of it."""
    time.sleep(2.2)
    text = httpx.get(f"{url}/metrics").text
    return float(next(line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith("forebay_pool_blocks{")))


def test_a_photo_gets_its_label(api: Client):
    """A model package outside this repository's rooms answers truly, with no line of its own in them."""
    answer = api.generate(model="efficientnet-lite0", text="What is this?", images=[media.coffee()])

    assert answer.text == "espresso"
    assert answer.engine["images"][0]["probability"] > 0.9


def test_a_recording_is_transcribed_token_by_token(api: Client):
    """A stream grows piece by piece into the exact sentence."""
    events = list(api.stream(model="whisper-tiny-en", text="transcribe", audio=[media.fox_recording()]))

    texts = [event.text for event in events]
    assert texts[-1] == FOX
    assert len(texts) > 5
    assert all(after.startswith(before) for before, after in pairwise(texts))
    assert events[-1].finish_reason == "stop"


def test_the_raw_stream_ends_with_done(deployment: Deployment):
    """Server-sent events as SGLang sends them."""
    body = {
        "model": "efficientnet-lite0",
        "text": "x",
        "stream": True,
        "image_data": {"url": "data:image/png;base64," + encode(media.plain_png(64, 64))},
    }
    with httpx.stream("POST", f"{deployment.url}/generate", json=body, timeout=60) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]

    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines)


def test_every_state_is_reached_in_order(api: Client):
    """The record keeps when each state was reached, on one clock."""
    api.generate(model="whisper-tiny-en", text="x", audio=[media.fox_recording()], rid="in-order")

    status = api.status("in-order")

    times = status.times_ms
    way = [times[name] for name in ("accepted", "queued", "processing", "parked", "admitted", "first_token", "end")]
    assert way == sorted(way)
    assert status.state == "done"
    assert status.attempt == 1


@pytest.mark.parametrize("picture", [media.rocket(), media.coffee()], ids=["jpeg", "png"])
def test_features_over_http_are_those_of_hugging_face(api: Client, picture: Path):
    """``/v1/preprocess`` reports the very bytes that transformers' own processor computes."""
    from PIL import Image

    processor = transformers().Qwen2VLImageProcessor(size={"shortest_edge": 3136, "longest_edge": 12_845_056})
    expected = processor(Image.open(picture).convert("RGB"), return_tensors="np")

    answer = api.preprocess(model="qwen2-vl", text=QUESTION, images=[picture], features="base64")

    item = answer.items[0]
    values = np.ascontiguousarray(expected["pixel_values"], "<f4")
    assert item.data["image_grid_thw"] == expected["image_grid_thw"][0].tolist()
    assert item.shape == values.shape
    assert item.sha256 == hashlib.sha256(values.tobytes()).hexdigest()
    assert base64.b64decode(item.base64) == values.tobytes()


def test_preprocess_answers_in_the_documented_shape(api: Client):
    """Every field of the answer, and how they hang together."""
    answer = api.preprocess(model="qwen2-vl", text=QUESTION, images=[media.rocket()], features="none", rid="shape").raw

    item = answer["items"][0]
    (first, last), *more = item["offsets"]
    assert not more
    assert set(answer) == {"rid", "model", "processor", "node", "input_ids", "items", "mrope", "timings_ms"}
    assert (answer["rid"], answer["model"], answer["processor"]["name"]) == ("shape", "qwen2-vl", "qwen2-vl")
    assert set(answer["input_ids"][first : last + 1]) == {151655}
    assert last - first + 1 == math.prod(item["model_specific_data"]["image_grid_thw"]) // 4
    assert set(item["feature"]) == {"dtype", "shape"}
    assert len(item["hash"]) == 16
    assert item["digest"] == "sha256:" + hashlib.sha256(media.rocket().read_bytes()).hexdigest()
    assert isinstance(item["cached"], bool)
    assert [len(row) for row in answer["mrope"]["positions"]] == [len(answer["input_ids"])] * 3
    assert answer["mrope"]["delta"] == max(map(max, answer["mrope"]["positions"])) + 1 - len(answer["input_ids"])
    assert answer["timings_ms"]["total"] > 0


def test_token_ids_instead_of_text_give_the_same_features(api: Client):
    """The prompt's form changes nothing behind it."""
    ids = [151652, 151655, 151653, 3838]

    answer = api.preprocess(model="qwen2-vl", input_ids=ids, images=[media.plain_png(56, 56)])

    assert answer.input_ids == (151652, 151655, 151655, 151655, 151655, 151653, 3838)
    assert answer.items[0].spans == ((1, 4),)


def test_caller_hashes_replace_ours(api: Client):
    """Hexadecimal of any width, of which the low 64 bits are kept."""
    answer = api.preprocess(
        model="qwen2-vl", text=QUESTION, images=[media.plain_png(56, 56)], mm_hashes=["1" + "0" * 15 + "ff"]
    )

    assert answer.items[0].hash == "00000000000000ff"


def test_a_random_qwen2_vl_says_what_it_says_in_hugging_face(api: Client, qwen_folder: Path):
    """Greedy tokens from our hand-off equal those from Hugging Face's own processor and generate()."""
    import torch
    from PIL import Image
    from tokenizers import Tokenizer

    hf = transformers()
    tokenizer = Tokenizer.from_file(str(qwen_folder / "tokenizer.json"))
    model = hf.Qwen2VLForConditionalGeneration.from_pretrained(qwen_folder).eval()
    images = hf.Qwen2VLImageProcessor.from_pretrained(qwen_folder)(Image.open(media.rocket()), return_tensors="pt")
    pads = int(images["image_grid_thw"].prod()) // 4
    ids = tokenizer.encode(QUESTION.replace("<|image_pad|>", "<|image_pad|>" * pads)).ids
    types = torch.tensor([[int(one == 151655) for one in ids]])
    with torch.inference_mode():
        out = model.generate(
            input_ids=torch.tensor([ids]), mm_token_type_ids=types, **images, max_new_tokens=8, do_sample=False
        )
    expected = tokenizer.decode(out[0, len(ids) :].tolist())

    answer = api.generate(
        model="qwen2-vl", text=QUESTION, images=[media.rocket()], sampling_params={"max_new_tokens": 8}
    )

    assert answer.text == expected
    assert answer.prompt_tokens == len(ids)


def test_text_alone_reaches_the_engine_without_a_block(api: Client):
    """A request without media goes the same way and leaves the pool alone."""
    answer = api.generate(model="qwen2-vl", text="Hello there", sampling_params={"max_new_tokens": 3})

    assert answer.completion_tokens <= 3
    assert answer.prompt_tokens == 2


def test_a_request_can_be_sent_and_fetched_later(api: Client, deployment: Deployment):
    """202 with a place to look; the result is there afterwards."""
    body = {"model": "efficientnet-lite0", "text": "x", "image_data": encode(media.plain_png(32, 32))}
    response = httpx.post(f"{deployment.url}/v1/requests", json=body)

    assert response.status_code == 202
    rid = response.json()["rid"]
    assert response.headers["location"] == f"/v1/requests/{rid}"
    give_up_at = time.monotonic() + 30
    while api.status(rid).state != "done":
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
    assert api.status(rid).answer.text


def test_cancelling_is_harmless_however_often(api: Client):
    """A finished request stays what it was; an unknown one is not found."""
    api.generate(model="efficientnet-lite0", text="x", images=[media.plain_png(32, 32)], rid="finished")

    assert [api.cancel("finished") for _ in range(2)] == ["done", "done"]
    with pytest.raises(RequestFailedError, match="404 request_not_found"):
        api.cancel("never-seen")


def test_two_hundred_mixed_requests_leave_no_block(deployment: Deployment):
    """Each gets the answer to its own media, good or bad, and the pool is empty afterwards."""
    png = media.plain_png(90, 60)

    def ask(number: int) -> str:
        with Client(deployment.url) as client:
            match number % 5:
                case 0:
                    colour = (number, 255 - number, 7)
                    answer = client.preprocess(
                        model="qwen2-vl", text=QUESTION, images=[media.plain_png(56, 56, colour)], features="base64"
                    )
                    raw = base64.b64decode(answer.items[0].base64)
                    red = np.frombuffer(raw, "<f4").reshape(16, 1176)[:, 0] * 0.26862954 + 0.48145466
                    return "own" if np.allclose(red * 255, number, atol=0.01) else f"another's: {red[0] * 255}"
                case 1:
                    client.generate(model="efficientnet-lite0", text="x", images=[png])
                    return "own"
                case 2:
                    return refusal(client, "qwen2-vl", images=[png[:60]])
                case 3:
                    return refusal(client, "qwen2-vl", images=[png, png])
                case _:
                    client.generate(model="qwen2-vl", text="Hi", sampling_params={"max_new_tokens": 2})
                    return "own"

    def refusal(client: Client, model: str, **request: object) -> str:
        with pytest.raises(RequestFailedError) as caught:
            client.preprocess(model=model, text=QUESTION, **request)
        return "own" if caught.value.status == 400 else str(caught.value)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(ask, range(200)))

    assert outcomes == ["own"] * 200
    assert pool_blocks(deployment.url) == 0
