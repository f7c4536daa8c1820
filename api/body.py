"""A body, checked and brought into one form: a call of one request, or of the requests of a batch.

What is wrong with the body as a whole, its JSON, its types, its lengths, refuses the call. What is wrong with one
prompt of a batch is that prompt's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from api import columns, shapes
from api.incoming import Call, Incoming, Slot, Source
from api.limits import Limits
from api.schema import GenerateBody, json_type, parse, read_json
from forebay import extensions
from forebay.errors import Rejected
from forebay.features import Modality
from forebay.processor import Prompt

_MOST_SAMPLES = 128
_DEFAULT = Limits()


def read_call(raw: bytes, limits: Limits = _DEFAULT) -> Call:
    """Check a body and bring it into one form.

    Raises:
        Rejected: naming the field, the item and the numbers that disagree.
    """
    body = read_json(raw)
    parsed = parse(body)
    prompts = _prompts(parsed, limits)
    table = _Table.of(body, parsed, prompts, limits)
    if prompts is None:
        return Call((_request(parsed, table, 0, limits),), is_batch=False, stream=parsed.stream)
    slots = tuple(_slot(lambda n=n: _request(parsed, table, n, limits)) for n in range(prompts))  # type: ignore[misc]
    return Call(slots, is_batch=True, stream=parsed.stream)


def _slot(read: Callable[[], Incoming]) -> Slot:
    try:
        return read()
    except Rejected as error:
        return error


def _prompts(body: GenerateBody, limits: Limits) -> int | None:
    """How many prompts a batch has; ``None`` for a single request."""
    if body.text is not None and body.input_ids is not None:
        raise Rejected("invalid_prompt", "give either text or input_ids, not both", param="input_ids")
    given, name = (body.input_ids, "input_ids") if body.text is None else (body.text, "text")
    if given is None:
        raise Rejected("invalid_prompt", "either text or input_ids must be given", param="text")
    if given == []:
        raise Rejected("invalid_prompt", f"{name} cannot be empty", param=name)
    if not isinstance(given, list) or isinstance(given[0], int):
        return None
    for number, one in enumerate(given):
        if one == []:
            path = f"{name}[{number}]"
            raise Rejected("invalid_prompt", f"{path}: input_ids cannot be empty for any prompt of a batch", param=path)
    if len(given) > limits.prompts:
        message = f"batch size {len(given)} exceeds the maximum of {limits.prompts}"
        raise Rejected("batch_too_large", message, param=name)
    return len(given)


@dataclass(frozen=True, slots=True)
class _Table:
    """Everything of a body that has an entry for each prompt."""

    media: dict[Modality, shapes.Column]
    extensions: Sequence[dict[str, Any]]
    rids: Sequence[str | None]
    samplings: Sequence[tuple[dict[str, Any], str]]
    hashes: Sequence[tuple[str, ...]]

    @classmethod
    def of(cls, body: dict[str, Any], parsed: GenerateBody, prompts: int | None, limits: Limits) -> _Table:
        values = (parsed.image_data, parsed.video_data, parsed.audio_data)
        fields = zip((Modality.IMAGE, Modality.VIDEO, Modality.AUDIO), values, strict=True)
        return cls(
            media={kind: _column(value, f"{kind}_data", prompts, limits) for kind, value in fields},
            extensions=columns.extension_maps(body, prompts, limits),
            rids=columns.rids(parsed.rid, prompts, limits),
            samplings=columns.samplings(parsed.sampling_params, prompts),
            hashes=columns.hashes(parsed.mm_hashes, prompts),
        )


def _column(value: Any, name: str, prompts: int | None, limits: Limits) -> shapes.Column:
    return [shapes.of_single(value, name)] if prompts is None else shapes.of_batch(value, name, prompts, limits)


def _request(body: GenerateBody, table: _Table, number: int, limits: Limits) -> Incoming:
    sampling, path = table.samplings[number]
    extensions.check_carried(sampling, path)
    return Incoming(
        prompt=_prompt(body, number),
        sources=_sources(table, number, limits),
        caller_hashes=table.hashes[number],
        extensions=table.extensions[number],
        sampling=_sampling(sampling, path),
        samples=_samples(sampling, path),
        stream=body.stream,
        rid=table.rids[number],
        model=body.model,
        priority=body.priority,
        timeout_ms=body.timeout_ms,
        features=body.features,
    )


def _prompt(body: GenerateBody, number: int) -> Prompt:
    if body.text is not None:
        text, path = (body.text, "text") if isinstance(body.text, str) else (body.text[number], f"text[{number}]")
        if not text:
            raise Rejected("invalid_prompt", f"{path} cannot be empty", param=path)
        extensions.check_text(text, path)
        return Prompt(text=text)
    ids: Any = body.input_ids
    return Prompt(ids=tuple(ids if isinstance(ids[0], int) else ids[number]))


def _sources(table: _Table, number: int, limits: Limits) -> tuple[Source, ...]:
    limits.check_items([kind for kind, column in table.media.items() for _ in column[number]])
    return tuple(one for kind, column in table.media.items() for one in shapes.sources(column[number], kind))


def _sampling(params: dict[str, Any], path: str) -> dict[str, Any]:
    count = params.get("max_new_tokens")
    if count is not None and not (_is_whole(count) and count >= 1):
        raise _bad_sampling(f"{path}.max_new_tokens", "must be a whole number of at least 1", count)
    stops = params.get("stop")
    if not (stops is None or isinstance(stops, str) or _are_texts(stops)):
        raise Rejected("invalid_request", f"{path}.stop must be a string or a list of strings", param=f"{path}.stop")
    return {key: value for key, value in params.items() if value is not None and key != "n"}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _samples(params: dict[str, Any], path: str) -> int:
    answers = params.get("n")
    if answers is None:
        return 1
    if not (_is_whole(answers) and 1 <= answers <= _MOST_SAMPLES):
        raise _bad_sampling(f"{path}.n", f"must be a whole number from 1 to {_MOST_SAMPLES}", answers)
    return int(answers)


def _bad_sampling(name: str, rule: str, value: Any) -> Rejected:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = value if is_number else json_type(value)  # nothing of the caller's that could be long
    return Rejected("invalid_request", f"{name} {rule}, got {shown}", param=name)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
