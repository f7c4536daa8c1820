"""Pictures that no two requests could confuse, and what must come of each: told by the deployment while all is calm."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np
from PIL import Image

from tests.support.media import coffee, encoded

PICTURES = 24
QUESTION = "<|vision_start|><|image_pad|><|vision_end|>What is it?"
_SIDE = 160


@dataclass(frozen=True)
class Picture:
    """A file in base64, and the right answers."""

    base64: str
    labels: list[dict[str, Any]]
    sha256: str

    def is_label(self, engine: dict[str, Any]) -> bool:
        """Whether an engine's answer is this picture's; a batch may change a probability's last digits."""
        [told], [right] = engine["images"], self.labels
        return told["label_id"] == right["label_id"] and abs(told["probability"] - right["probability"]) < 1e-3


def _files() -> list[bytes]:
    """Crops of one photograph, each with a frame of its own colour."""
    whole = np.asarray(Image.open(coffee()).convert("RGB"))
    files = []
    for number in range(PICTURES):
        top, left = 7 * number, 13 * number
        crop = whole[top : top + _SIDE, left : left + _SIDE].copy()
        crop[:12] = crop[-12:] = (number * 10, 255 - number * 10, number * 37 % 256)
        files.append(encoded(crop, "PNG"))
    return files


def body_of(kind: str, picture: str) -> tuple[str, dict[str, Any]]:
    """Path and body of a request of a kind."""
    if kind == "preprocess":
        return "/v1/preprocess", {"model": "qwen2-vl", "text": QUESTION, "image_data": picture}
    if kind == "bad":
        return "/v1/preprocess", {"model": "qwen2-vl", "text": "no placeholder", "image_data": picture}
    path = "/v1/requests" if kind in ("async", "cancelled") else "/generate"
    return path, {"model": "efficientnet-lite0", "text": "x", "image_data": picture, "stream": kind == "stream"}


def hang(url: str) -> list[Picture]:
    """Ask for every picture once."""
    pictures = []
    with httpx.Client(base_url=url, timeout=60) as http:
        for data in _files():
            text = base64.b64encode(data).decode()
            label = _ask(http, "generate", text)
            features = _ask(http, "preprocess", text)
            pictures.append(
                Picture(text, label["meta_info"]["engine"]["images"], features["items"][0]["feature"]["sha256"])
            )
    assert len({picture.sha256 for picture in pictures}) == PICTURES
    return pictures


def _ask(http: httpx.Client, kind: str, picture: str) -> Any:
    path, body = body_of(kind, picture)
    return http.post(path, json=body).raise_for_status().json()
