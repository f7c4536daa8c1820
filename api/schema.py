"""The body of ``/generate``, ``/v1/preprocess`` and ``/v1/requests`` as JSON: read strictly, each field of its type."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forebay.errors import Rejected

_LONGEST_INT, _TOO_LARGE = 20, 1 << 64  # digits and sign of 64 bits; and the first number beyond them

TokenId = Annotated[int, Field(ge=0, lt=2**63)]
Ids = list[TokenId]
M = TypeVar("M", bound=BaseModel)


class GenerateBody(BaseModel):
    """A request in SGLang's native shape. A list of texts, or of lists of ids, is a batch, even a list of one.

    Unknown fields are ignored; ``multimodal_*`` fields are carried.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    text: str | list[str] | None = Field(
        None, description="The prompt, with one placeholder an item where the model has any; a list is a batch."
    )
    input_ids: Ids | list[Ids] | None = Field(None, description="The prompt as token ids, instead of text.")
    image_data: Any = Field(
        None,
        description="An image, or a list of them: base64, a data: URL, or {'url': …}. In a batch one for all, or a "
        "list with an entry, or a list of entries, for each prompt. {'format': 'processor_output', …} is a feature.",
    )
    video_data: Any = Field(
        None,
        description="Videos, in the same shapes; an object {'frames': […], 'fps': 2} is a list of pictures.",
    )
    audio_data: Any = Field(None, description="Recordings, in the same shapes.")
    mm_hashes: list[str] | list[list[str] | None] | None = Field(
        None, description="Identities of the items, hexadecimal, instead of ours; in a batch a list for each prompt."
    )
    sampling_params: dict[str, Any] | list[dict[str, Any]] | None = Field(
        None, description="For the engine, for example max_new_tokens; in a batch one for all, or a list."
    )
    stream: bool = Field(False, description="Answer as server-sent events.")
    rid: str | list[str] | None = Field(
        None, description="Request id, at most 128 printable characters; in a batch a list, or one that is numbered."
    )
    model: str | None = Field(None, description="Which model; may be left out when one is served.")
    priority: int = Field(0, ge=-100, le=100, description="Higher goes first.")
    timeout_s: float | None = Field(None, gt=0, le=600, allow_inf_nan=False, description="Time to the deadline.")
    features: Literal["none", "sha256", "base64"] = Field("sha256", description="For /v1/preprocess only.")

    @property
    def timeout_ms(self) -> int | None:
        return None if self.timeout_s is None else max(1, int(self.timeout_s * 1000))


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
        raise Rejected("invalid_json", f"the body must be a JSON object, not {json_type(body)}")
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


def parse(body: dict[str, Any]) -> GenerateBody:
    """The known fields of a native body. Errors as ``read_known``."""
    return read_known(GenerateBody, body)


def read_known(model: type[M], body: dict[str, Any]) -> M:
    """The known fields of a body, each of its type; a null is as good as nothing.

    Raises:
        Rejected: naming the path and what was expected.
    """
    try:
        known = {k: v for k, v in body.items() if k in model.model_fields and v is not None}
        return model.model_validate(known)
    except ValidationError as error:
        raise _first_mistake(error) from error


def _first_mistake(error: ValidationError) -> Rejected:
    """The first mistake; of several readings of its field, in the one that got furthest, for that one was meant."""
    mistakes = error.errors(include_url=False, include_input=False, include_context=False)
    name = str(mistakes[0]["loc"][0])
    firsts: dict[str, Any] = {}
    for mistake in mistakes:
        field, *where = mistake["loc"]
        if field == name:
            reading = where[0] if where and isinstance(where[0], str) else ""
            firsts.setdefault(reading, mistake)
    meant = max(firsts.values(), key=lambda mistake: _indices(mistake["loc"]))
    path = name + "".join(f"[{index}]" for index in _indices(meant["loc"]))
    return Rejected("invalid_request", f"{path}: {meant['msg']}", param=path)


def _indices(location: tuple[int | str, ...]) -> list[int]:
    """Where in its field a mistake is, without what pydantic calls the reading that it tried, such as ``list[str]``."""
    return [part for part in location if isinstance(part, int)]


def json_type(value: Any) -> str:
    """A JSON value's type, as a caller calls it."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "null" if value is None else "an object")
