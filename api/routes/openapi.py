"""Request bodies in OpenAPI: routes read them by hand (exact JSON, one pass), so they are described here."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from api.chat_body import ChatBody
from api.schema import GenerateBody

_PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGM4UaEBAAN0AWnL+tDXAAAAAElFTkSuQmCC"  # one pixel, PNG
)
_BEEP = (  # 5 ms, WAV
    "UklGRkwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YSgAAACoqKioWFhYWKioqKhYWFhYqKioqFhYWFioqKioWFhYWKioqKhYWFhY"
)

EXAMPLES: dict[str, Any] = {
    "image": {
        "summary": "A picture and a question",
        "value": {
            "model": "qwen2-vl",
            "text": "<|vision_start|><|image_pad|><|vision_end|>What is this?",
            "image_data": _PIXEL,
            "sampling_params": {"max_new_tokens": 32},
        },
    },
    "ids": {
        "summary": "Token ids and a data: URL",
        "value": {
            "model": "qwen2-vl",
            "input_ids": [151652, 151655, 151653, 3838],
            "image_data": [f"data:image/png;base64,{_PIXEL}"],
        },
    },
    "audio": {
        "summary": "A recording, answered as a stream",
        "value": {"model": "whisper-tiny-en", "text": "transcribe", "audio_data": _BEEP, "stream": True},
    },
}


CHAT_EXAMPLE: dict[str, Any] = {
    "summary": "A picture and a question",
    "value": {
        "model": "qwen2-vl",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
                    {"type": "text", "text": "What is this?"},
                ],
            }
        ],
        "max_completion_tokens": 32,
    },
}


def chat_body() -> dict[str, Any]:
    """``openapi_extra`` of a route that takes a ``ChatBody``."""
    content = {"application/json": {"schema": ChatBody.model_json_schema(), "examples": {"image": CHAT_EXAMPLE}}}
    return {"requestBody": {"required": True, "content": content}}


def abort_body(model: type[BaseModel]) -> dict[str, Any]:
    """``openapi_extra`` of ``/abort_request``."""
    return {"requestBody": {"content": {"application/json": {"schema": model.model_json_schema()}}}}


def upload_body() -> dict[str, Any]:
    """``openapi_extra`` of ``POST /v1/media``: the bytes themselves, or a form with one file."""
    raw = {"schema": {"type": "string", "format": "binary"}}
    form = {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}, "required": ["file"]}
    content = {"application/octet-stream": raw, "multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": content}}


def generate_body() -> dict[str, Any]:
    """``openapi_extra`` of a route that takes a ``GenerateBody``."""
    schema = GenerateBody.model_json_schema()
    content = {"application/json": {"schema": schema, "examples": EXAMPLES}}
    return {"requestBody": {"required": True, "content": content}}
