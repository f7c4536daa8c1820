"""What the routes take and give, in OpenAPI: they read and write JSON by hand, so it is described here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from api.chat_body import ChatBody
from api.described import ErrorAnswer
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


Responses = dict[int | str, dict[str, Any]]

DOOR = (401,)
"""What any path may answer that is not open."""
LOOK = (*DOOR, 500, 503)
"""And what reads from Redis."""
ASK = (400, 404, 409, 413, 415, 429, 499, *LOOK, 504)
"""And what sends a request on its way."""

_EVENTS = {"text/event-stream": {"schema": {"type": "object", "description": "One event: its kind, id and data."}}}
_MEANINGS = {
    400: "Something in the request is wrong; the error names it",
    401: "No API key, or an unknown one",
    403: "Needs an operator's key",
    404: "There is no such thing, or it is another tenant's",
    409: "Not as things stand: the id is running, the model has no engine, or there are no events",
    413: "Too large",
    415: "Another content type",
    429: "The tenant's limit; Retry-After tells when to come again",
    499: "Cancelled",
    500: "Our fault",
    503: "Not now; Retry-After tells when to come again",
    504: "The deadline passed",
}


def gives(good: type[BaseModel] | None, *errors: int, status: int = 200, stream: bool = False) -> Responses:
    """``responses`` of a route: its good answer, perhaps also as a stream, and the errors it may have."""
    found: Responses = {code: {"model": ErrorAnswer, "description": _MEANINGS[code]} for code in sorted(set(errors))}
    if good is not None:
        found[status] = {"model": good}
    if stream:
        found[status]["content"] = _EVENTS
    return found


def gives_text(*errors: int) -> Responses:
    """``responses`` of a route whose good answer is plain text."""
    return {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **gives(None, *errors)}


def gives_events(*errors: int) -> Responses:
    """``responses`` of a route whose good answer is a stream of events."""
    return {200: {"content": _EVENTS}, **gives(None, *errors)}


def parameter(name: str, where: str, description: str, **schema: Any) -> dict[str, Any]:
    """A parameter that a route reads by hand."""
    return {"name": name, "in": where, "required": False, "description": description, "schema": schema}


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: what FastAPI finds, less the validation errors that no route of ours has, with the key."""
    made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    for path in made["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"key": []}, {}]
    return made
