"""The body of ``/generate``, ``/v1/preprocess`` and ``/v1/requests``: read, checked, and brought into one form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forebay import extensions
from forebay.errors import Rejected
from forebay.features import Modality
from forebay.processor import Prompt

MAX_ITEMS = 64  # as the original; before any of them is looked at
_LONGEST_INT, _TOO_LARGE = 20, 1 << 64  # digits and sign of 64 bits; and the first number beyond them
_RID = re.compile(r"[\x21-\x7e]{1,128}")

TokenId = Annotated[int, Field(ge=0, lt=2**63)]


class GenerateBody(BaseModel):
    """A request in SGLang's native shape. Unknown fields are ignored; ``multimodal_*`` fields are carried."""

    model_config = ConfigDict(strict=True, extra="allow")

    text: str | None = Field(None, description="The prompt, with one placeholder an item where the model has any.")
    input_ids: list[TokenId] | None = Field(None, description="The prompt as token ids, instead of text.")
    image_data: Any = Field(None, description="An image, or a list of them: base64, a data: URL, or {'url': …}.")
    video_data: Any = Field(None, description="A video, or a list of them.")
    audio_data: Any = Field(None, description="A recording, or a list of them.")
    mm_hashes: list[str] | None = Field(None, description="Identities of the items, hexadecimal, instead of ours.")
    sampling_params: dict[str, Any] | None = Field(None, description="For the engine, for example max_new_tokens.")
    stream: bool = Field(False, description="Answer as server-sent events.")
    rid: str | None = Field(None, description="Request id, at most 128 printable characters.")
    model: str | None = Field(None, description="Which model; may be left out when one is served.")
    priority: int = Field(0, ge=-100, le=100, description="Higher goes first.")
    timeout_s: float | None = Field(None, gt=0, le=600, allow_inf_nan=False, description="Time to the deadline.")
    features: Literal["none", "sha256", "base64"] = Field("sha256", description="For /v1/preprocess only.")


@dataclass(frozen=True, slots=True)
class Source:
    """A media item as the caller sent it."""

    modality: Modality
    text: str
    param: str


@dataclass(frozen=True, slots=True)
class Incoming:
    """A checked request, before its media are resolved."""

    prompt: Prompt
    sources: tuple[Source, ...]
    caller_hashes: tuple[str, ...] = ()
    extensions: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False
    rid: str | None = None
    model: str | None = None
    priority: int = 0
    timeout_ms: int | None = None
    features: str = "sha256"


def read_json(raw: bytes) -> dict[str, Any]:
    """Strict JSON, an object.

    Raises:
        Rejected: not JSON, NaN or infinity, or another kind of value.
    """
    try:
        body = _load(raw)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Rejected("invalid_json", f"the body is not JSON: {reason}") from error
    if not isinstance(body, dict):
        raise Rejected("invalid_json", f"the body must be a JSON object, not {_json_type(body)}")
    return body


def _load(raw: bytes) -> Any:
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python refuses to read an integer of thousands of digits. One that is too large just so lets the checks of
        # the fields say which one it is.
        return json.loads(raw, parse_constant=_refuse_constant, parse_int=_bounded_int)


def _bounded_int(text: str) -> int:
    return int(text) if len(text) <= _LONGEST_INT else _TOO_LARGE


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def read_incoming(raw: bytes) -> Incoming:
    """Check a body and bring it into one form.

    Raises:
        Rejected: naming the field, the item and the numbers that disagree.
    """
    body = read_json(raw)
    carried = extensions.extract(body)
    parsed = _parse(body)
    return Incoming(
        prompt=_prompt(parsed),
        sources=_sources(parsed),
        caller_hashes=_caller_hashes(parsed.mm_hashes or []),
        extensions=carried,
        sampling=_sampling(parsed.sampling_params or {}),
        stream=parsed.stream,
        rid=_rid(parsed.rid),
        model=parsed.model,
        priority=parsed.priority,
        timeout_ms=None if parsed.timeout_s is None else max(1, int(parsed.timeout_s * 1000)),
        features=parsed.features,
    )


def _parse(body: dict[str, Any]) -> GenerateBody:
    try:
        known = {k: v for k, v in body.items() if k in GenerateBody.model_fields and v is not None}
        return GenerateBody.model_validate(known)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise Rejected("invalid_request", f"{path}: {first['msg']}", param=path) from error


def _prompt(body: GenerateBody) -> Prompt:
    if body.text is not None and body.input_ids is not None:
        raise Rejected("invalid_prompt", "give either text or input_ids, not both", param="input_ids")
    if body.text is None and body.input_ids is None:
        raise Rejected("invalid_prompt", "either text or input_ids must be given", param="text")
    if body.text is not None:
        return Prompt(text=_checked_prompt(body.text))
    if not body.input_ids:
        raise Rejected("invalid_prompt", "input_ids cannot be empty", param="input_ids")
    return Prompt(ids=tuple(body.input_ids))


def _checked_prompt(text: str) -> str:
    if not text:
        raise Rejected("invalid_prompt", "text cannot be empty", param="text")
    extensions.check_text(text, "text")
    return text


def _caller_hashes(hashes: list[str]) -> tuple[str, ...]:
    for number, text in enumerate(hashes):
        extensions.check_text(text, f"mm_hashes[{number}]")
    return tuple(hashes)


def _sources(body: GenerateBody) -> tuple[Source, ...]:
    fields = {Modality.IMAGE: body.image_data, Modality.VIDEO: body.video_data, Modality.AUDIO: body.audio_data}
    sources = [
        Source(modality, text, param)
        for modality, value in fields.items()
        for text, param in _items(value, f"{modality}_data")
    ]
    if len(sources) > MAX_ITEMS:
        raise Rejected("too_many_items", f"the request has {len(sources)} media items; the limit is {MAX_ITEMS}")
    return tuple(sources)


def _items(value: Any, name: str) -> list[tuple[str, str]]:
    """One item or a flat list of them; nulls are dropped."""
    if isinstance(value, list):
        return [(_item(one, f"{name}[{i}]"), f"{name}[{i}]") for i, one in enumerate(value) if one is not None]
    return [] if value is None else [(_item(value, name), name)]


def _item(value: Any, param: str) -> str:
    if isinstance(value, list):
        message = f"{param}: a nested list is the batch form; a single request takes one item or a flat list"
        raise Rejected("invalid_media", message, param=param)
    if isinstance(value, dict):
        value = value.get("url") or ""
        if not isinstance(value, str) or not value:
            raise Rejected("invalid_media", f"{param}: a media object needs a non-empty 'url'", param=param)
    if not isinstance(value, str):
        message = f"{param} must be a string or an object with 'url', not {_json_type(value)}"
        raise Rejected("invalid_media", message, param=param)
    return value


def _sampling(params: dict[str, Any]) -> dict[str, Any]:
    extensions.check_carried(params, "sampling_params")
    count, answers = params.get("max_new_tokens"), params.get("n")
    if count is not None and not (_is_whole(count) and count >= 1):
        raise _bad_sampling("max_new_tokens", "must be a whole number of at least 1", count)
    if answers is not None and not (_is_whole(answers) and answers == 1):
        raise _bad_sampling("n", "must be 1; send the request again for another answer", answers)
    return {key: value for key, value in params.items() if value is not None}


def _bad_sampling(key: str, rule: str, value: Any) -> Rejected:
    name = f"sampling_params.{key}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = value if is_number else _json_type(value)  # nothing of the caller's that could be long
    return Rejected("invalid_request", f"{name} {rule}, got {shown}", param=name)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _rid(rid: str | None) -> str | None:
    if rid and not _RID.fullmatch(rid):
        message = f"rid must be 1 to 128 printable ASCII characters without spaces, got {len(rid)} characters"
        raise Rejected("invalid_rid", message, param="rid")
    return rid or None


def _json_type(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
