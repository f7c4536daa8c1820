"""Bodies of requests, built from Python values. Nothing here sends."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from forebay.client.files import MediaFile, whole
from forebay.client.listings import Upload
from forebay.features import Modality

Source = str | bytes | Path | Upload
"""Media: a path, bytes, an upload, or a string as the API takes it (base64, a ``data:`` URL, an uploaded id)."""

Items = Sequence[Any]
"""Sources; of several prompts, a list with a source, a list of sources or ``None`` for each."""


class Request(TypedDict, total=False):
    """What ``generate``, ``stream``, ``preprocess`` and ``submit`` take; docs/api.md says what each field means.

    ``images``, ``audio`` and ``videos`` become ``image_data``, ``audio_data`` and ``video_data``; ``extensions`` holds
    the ``multimodal_*`` fields. A field that is ``None`` is left out. At run time any other field is sent as it is.
    """

    model: str | None
    text: str | list[str] | None
    input_ids: list[int] | list[list[int]] | None
    images: Items
    audio: Items
    videos: Items
    mm_hashes: list[Any] | None
    sampling_params: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
    rid: str | list[str] | None
    priority: int | None
    timeout_s: float | None
    features: str | None
    extensions: Mapping[str, Any]


def encode(source: Source) -> str:
    """Media as the API takes them: a path or bytes become base64, an upload its id, a string stays as it is.

    Raises:
        FileError: a file that cannot be read.
    """
    if isinstance(source, str):
        return source
    if isinstance(source, Upload):
        return source.id
    data = whole(source) if isinstance(source, Path) else source
    return base64.b64encode(data).decode()


def request_body(
    *,
    images: Items = (),
    audio: Items = (),
    videos: Items = (),
    extensions: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A body for ``/generate`` and its relatives."""
    body = {name: value for name, value in fields.items() if value is not None}
    for name, items in (("image_data", images), ("audio_data", audio), ("video_data", videos)):
        if items:
            body[name] = _encoded(items)
    return {**body, **(extensions or {})}


def ready_made(data: bytes, dtype: str, shape: Sequence[int], **made_of: float) -> dict[str, Any]:
    """A feature in an item's place, where a deployment takes them; it stands in ``images``, ``audio`` or ``videos``.

    Args:
        data: its elements, little-endian, in C order; of bfloat16 the raw bits.
        dtype: ``float32``, ``bfloat16``, ``int64`` or ``uint8``.
        shape: as the model has it.
        made_of: what it was made of: height and width of a picture, samples of a recording at the model's rate, frames,
            fps, height and width of a video.
    """
    feature = {"dtype": dtype, "shape": list(shape), "data": encode(data)}
    return {"format": "processor_output", "feature": feature, "made_of": made_of}


def _encoded(item: Any) -> Any:
    if isinstance(item, list | tuple):
        return [_encoded(one) for one in item]
    return item if item is None or isinstance(item, dict) else encode(item)


def is_for_several(body: Mapping[str, Any]) -> bool:
    """Whether a body is answered with a list: several prompts, or several answers to one."""
    ids, sampling = body.get("input_ids"), body.get("sampling_params")
    is_nested = isinstance(ids, list) and bool(ids) and isinstance(ids[0], list)
    wanted = sampling.get("n") if isinstance(sampling, Mapping) else None
    return isinstance(body.get("text"), list) or is_nested or (wanted or 1) > 1


def chat_body(prompt: str | None, files: Sequence[str | Path], **fields: Any) -> dict[str, Any]:
    """A conversation of one message: the files in their order, then the prompt.

    Raises:
        FileError: a file that cannot be sent.
    """
    parts = [_part(MediaFile.at(Path(file))) for file in files]
    if prompt:
        parts.append({"type": "text", "text": prompt})
    given = {name: value for name, value in fields.items() if value is not None}
    return {"messages": [{"role": "user", "content": parts or ""}], **given}


def _part(file: MediaFile) -> dict[str, Any]:
    data = encode(file.read())
    if file.modality is Modality.AUDIO:
        return {"type": "input_audio", "input_audio": {"data": data, "format": file.path.suffix[1:].lower()}}
    name = f"{file.modality}_url"
    return {"type": name, name: {"url": f"data:{file.content_type};base64,{data}"}}
