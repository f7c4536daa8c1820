"""Bad input gets a clear 4xx through the real processes, and leaves nothing."""

from __future__ import annotations

import json
import socket
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from forebay.client import Client, encode
from tests.support import media
from tests.support.deployment import Deployment
from tests.system.test_main_job import QUESTION, pool_blocks

pytestmark = pytest.mark.system

PNG = encode(media.plain_png(60, 40))
QWEN = {"model": "qwen2-vl", "text": QUESTION, "image_data": PNG}


def post(url: str, body: Any, path: str = "/generate") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{url}{path}", content=content, headers={"Content-Type": "application/json"}, timeout=60)


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        (b"{not json", 400, "invalid_json", "not JSON"),
        (b"[1]", 400, "invalid_json", "JSON object, not a list"),
        (b'{"text": "x", "multimodal_x": NaN}', 400, "invalid_json", "NaN"),
        ({"model": "qwen2-vl"}, 400, "invalid_prompt", "either text or input_ids"),
        ({**QWEN, "input_ids": [1]}, 400, "invalid_prompt", "not both"),
        ({**QWEN, "text": ""}, 400, "invalid_prompt", "text cannot be empty"),
        ({**QWEN, "text": None, "input_ids": []}, 400, "invalid_prompt", "input_ids cannot be empty"),
        ({**QWEN, "text": None, "input_ids": [151655, 999999]}, 400, "invalid_token_id", "[0, 151936)"),
        ({**QWEN, "stream": "yes"}, 400, "invalid_request", "stream"),
        ({**QWEN, "model": "gpt-9"}, 404, "model_not_found", "gpt-9"),
        ({"text": "x"}, 400, "model_required", "efficientnet-lite0"),
        ({**QWEN, "image_data": [PNG, [PNG]]}, 400, "invalid_media", "image_data[1]: a nested list"),
        ({**QWEN, "image_data": "aGVsbG8gd29ybGQ="}, 400, "unsupported_image", "image_data"),
        ({**QWEN, "image_data": "%%%"}, 400, "invalid_base64", "invalid base64"),
        ({**QWEN, "image_data": ""}, 400, "empty_media", "image_data is empty"),
        ({**QWEN, "image_data": "/etc/passwd"}, 400, "unsupported_image", "image_data"),  # base64, whatever it spells
        ({**QWEN, "image_data": "file:///etc/passwd"}, 400, "unsupported_source", "file: URLs are not read"),
        ({**QWEN, "image_data": encode(media.coffee().read_bytes()[:9000])}, 400, "truncated_image", "truncated"),
        ({**QWEN, "image_data": [PNG, PNG]}, 400, "placeholder_mismatch", "1 image placeholder, the request has 2"),
        ({"model": "qwen2-vl", "text": QUESTION}, 400, "placeholder_mismatch", "the request has 0 images"),
        ({**QWEN, "multimodal_hint": 0}, 400, "invalid_extensions", "multimodal_hint"),
        ({**QWEN, "image_data": encode(media.plain_png(201, 1))}, 400, "aspect_ratio", "at most 200, got 201"),
        ({**QWEN, "audio_data": PNG}, 400, "unsupported_modality", "takes no audio"),
        ({**QWEN, "sampling_params": {"max_new_tokens": 0}}, 400, "invalid_request", "max_new_tokens"),
        ({**QWEN, "rid": "a b"}, 400, "invalid_rid", "rid"),
        ({"model": "qwen3-vl", "text": "Hi"}, 409, "no_engine", "/v1/preprocess"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_code_and_its_sentence(
    deployment: Deployment, body: Any, status: int, code: str, said: str
):
    """A caller learns what to mend, in one shape of error."""
    response = post(deployment.url, body)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code), response.text
    assert said in error["message"]
    assert set(error) == {"type", "code", "message", "param", "rid"}
    assert error["type"] == "invalid_request_error"


def test_a_stream_that_fails_before_its_first_token_is_an_ordinary_error(deployment: Deployment):
    """The status line is not sent before the first token, so it can still tell the truth."""
    response = post(deployment.url, {**QWEN, "stream": True, "image_data": "aGVsbG8gd29ybGQ="})

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unsupported_image"


def test_a_picture_larger_than_the_pool_is_refused_with_both_numbers(deployment: Deployment):
    """192 MiB of pool cannot hold 4400x2900 pixels of float32 features; this model's context would."""
    big = encode(media.plain_png(4400, 2900))

    response = post(deployment.url, {**QWEN, "model": "qwen3-vl", "image_data": big}, "/v1/preprocess")

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (413, "features_too_large")
    assert str(192 << 20) in error["message"]


def test_a_picture_that_is_too_long_for_the_context_is_refused_before_it_is_decoded(deployment: Deployment):
    """400 with both numbers: this model takes 4096 tokens."""
    big = encode(media.plain_png(4400, 2900))

    response = post(deployment.url, {**QWEN, "image_data": big}, "/v1/preprocess")

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "prompt_too_long")
    assert "the model takes 4096" in error["message"]


def test_an_oversized_body_is_refused_before_it_is_read(deployment: Deployment):
    """The announced length is enough to say no."""
    address = urlsplit(deployment.url)
    head = (
        "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n{"
    )
    with socket.create_connection((address.hostname, address.port), timeout=10) as sock:
        sock.sendall(head.encode())
        answer = HTTPResponse(sock, method="POST")
        answer.begin()
        error = json.loads(answer.read())["error"]  # to the end of it: an answer may come in several segments

    assert answer.status == 413
    assert "at least 10000000000 bytes" in error["message"]


def test_another_content_type_is_refused(deployment: Deployment):
    """Only JSON."""
    response = httpx.post(f"{deployment.url}/generate", content=b"x", headers={"Content-Type": "text/plain"})

    assert (response.status_code, response.json()["error"]["code"]) == (415, "unsupported_content_type")


def test_an_unknown_path_and_a_wrong_method_have_the_same_shape_of_error(deployment: Deployment):
    """Nothing answers in another shape."""
    missing, wrong = httpx.get(f"{deployment.url}/nowhere"), httpx.get(f"{deployment.url}/generate")

    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


def test_an_id_that_is_running_is_refused_and_one_that_has_ended_is_not(api: Client, deployment: Deployment):
    """409 while it runs; the first request is unharmed."""
    slow = {"model": "whisper-tiny-en", "text": "x", "audio_data": encode(media.fox_recording()), "rid": "twice"}
    first = httpx.post(f"{deployment.url}/v1/requests", json=slow)
    second = post(deployment.url, slow)

    assert first.status_code == 202
    assert (second.status_code, second.json()["error"]["code"]) == (409, "duplicate_rid")
    while api.status("twice").state not in ("done", "failed"):
        pass
    assert api.status("twice").state == "done"
    assert post(deployment.url, slow).status_code == 200


def test_bad_input_leaves_no_block(deployment: Deployment):
    """After all of the above the pool is empty."""
    assert pool_blocks(deployment.url) == 0
