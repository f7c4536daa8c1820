"""A feature that a caller sends instead of media: ``{"format": "processor_output", "feature": …, "made_of": …}``."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from api.incoming import Source
from api.schema import json_type
from api.sources import decode_base64
from forebay.dtypes import DType
from forebay.errors import Rejected
from forebay.features import Modality
from handoff.ready_made import SIZES, SentFeature

FORMAT = "processor_output"
_MOST_AXES = 8
_Side = Annotated[int, Field(ge=1, lt=2**31)]
_STRICT = ConfigDict(strict=True, extra="forbid")


class _FeatureBody(BaseModel):
    model_config = _STRICT

    dtype: Literal["float32", "int64", "bfloat16", "uint8"]
    shape: list[_Side] = Field(min_length=1, max_length=_MOST_AXES)
    data: str = Field(validation_alias=AliasChoices("data", "base64"))
    """As ``/v1/preprocess`` calls it, too: what it answers may be sent back."""
    sha256: str | None = None
    normalisation: object = None
    """The model's own is taken."""


class _SizesBody(BaseModel):
    model_config = _STRICT

    height: _Side | None = None
    width: _Side | None = None
    samples: _Side | None = None
    frames: _Side | None = None
    fps: float | None = Field(None, gt=0, le=1000, allow_inf_nan=False)


class _Body(BaseModel):
    model_config = _STRICT

    format: str
    feature: _FeatureBody
    made_of: _SizesBody


def is_ready_made(value: Any, param: str) -> bool:
    """Whether an item is a feature instead of media.

    Raises:
        Rejected: it is of a format that nobody reads.
    """
    if not isinstance(value, Mapping) or value.get("url") is not None or value.get("format") is None:
        return False
    name = value["format"]
    if name != FORMAT:
        shown = repr(name[:40]) if isinstance(name, str) else json_type(name)
        message = f"{param}.format is {shown}; an object needs a non-empty 'url', or the format {FORMAT!r}"
        raise Rejected("invalid_media", message, param=f"{param}.format")
    return True


def read_ready_made(value: Mapping[str, Any], modality: Modality, param: str) -> Source:
    """The item that stands for a feature; its bytes are decoded when the request is gathered.

    Raises:
        Rejected: naming the field.
    """
    try:
        body = _Body.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = ".".join([param, *(str(part) for part in first["loc"])])
        raise _bad(f"{path}: {first['msg']}{_shown(first.get('input'))}", path) from error
    sizes = body.made_of.model_dump(include=set(SIZES[modality]))
    for name, size in sizes.items():
        if size is None:
            path = f"{param}.made_of.{name}"
            raise _bad(
                f"{path} is missing; what {_A[modality]} is made of is told by {', '.join(SIZES[modality])}", path
            )
    others = sorted(name for name in body.made_of.model_fields_set if name not in sizes)
    if others:
        path = f"{param}.made_of.{others[0]}"
        raise _bad(f"{path} says nothing of {_A[modality]}; {', '.join(SIZES[modality])} do", path)
    sent = SentFeature(DType(body.feature.dtype), tuple(body.feature.shape), sizes, body.feature.sha256)
    return Source(modality, body.feature.data, param, sent=sent)


def _shown(value: object) -> str:
    """What was sent, where that is short."""
    is_short = (isinstance(value, str) and len(value) <= 40) or (isinstance(value, int | float) and abs(value) < 1e15)
    return f", not {value!r}" if is_short else ""


_A = {Modality.IMAGE: "a picture", Modality.AUDIO: "a recording", Modality.VIDEO: "a video"}


def packed(source: Source, limit_bytes: int) -> bytes:
    """The feature as it travels on.

    Raises:
        Rejected: it is too large, not base64, or of another length than its shape says.
    """
    assert source.sent is not None
    path, sent = f"{source.param}.feature.data", source.sent
    data = decode_base64(source.text, path, limit_bytes)
    expected = math.prod(sent.shape) * sent.dtype.itemsize
    if len(data) != expected:
        shape = f"{sent.dtype} {list(sent.shape)}"
        raise _bad(f"{path} is {len(data)} bytes; {shape} has {expected}", path)
    digest = hashlib.sha256(data).hexdigest()
    if sent.sha256 not in (None, digest):
        message = f"{source.param}.feature.sha256 is {sent.sha256[:64]!r}; that of the data is {digest}"
        raise _bad(message, f"{source.param}.feature.sha256")
    return sent.pack(data)


def check_allowed(source: Source, limit_bytes: int) -> None:
    """Refuse a feature where none is taken.

    Raises:
        Rejected: ``precomputed_off``.
    """
    if not limit_bytes:
        message = f"{source.param}: this deployment takes no ready-made features (FOREBAY_PRECOMPUTED_BYTES)"
        raise Rejected("precomputed_off", message, param=source.param)


def _bad(message: str, param: str) -> Rejected:
    return Rejected("invalid_precomputed", message, param=param)
