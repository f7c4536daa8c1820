"""The body of ``/v1/chat/completions``, in OpenAI's shape: checked, and brought into the one form of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from api import columns
from api.incoming import Call, Incoming, Source
from api.limits import Limits
from api.reels import is_reel, read_reel
from api.schema import json_type, read_json, read_known
from forebay import extensions
from forebay.chat import Chat
from forebay.errors import Rejected
from forebay.features import Modality
from forebay.processor import Prompt

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_FOR_THE_ENGINE = ("temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty", "stop")


class StreamOptions(BaseModel):
    """What a stream is to tell besides the answer."""

    model_config = ConfigDict(strict=True)

    include_usage: bool = False


class ChatBody(BaseModel):
    """A conversation in OpenAI's shape. Unknown fields are ignored; ``multimodal_*`` fields are carried."""

    model_config = ConfigDict(strict=True, extra="allow")

    messages: list[dict[str, Any]] = Field(min_length=1, description="The conversation, with media among its parts.")
    model: str | None = Field(None, description="Which model; may be left out when one is served.")
    stream: bool = Field(False, description="Answer as server-sent events.")
    stream_options: StreamOptions | None = Field(None, description="include_usage: a last event with the token counts.")
    max_completion_tokens: int | None = Field(None, ge=1, description="Most tokens of an answer.")
    max_tokens: int | None = Field(None, ge=1, description="The older name of max_completion_tokens.")
    n: int = Field(1, ge=1, le=128, description="How many answers.")
    stop: str | Annotated[list[str], Field(max_length=16)] | None = Field(None, description="Where an answer ends.")
    temperature: float | None = Field(None, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    top_k: int | None = Field(None)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    frequency_penalty: float | None = Field(None, ge=-2, le=2, allow_inf_nan=False)
    presence_penalty: float | None = Field(None, ge=-2, le=2, allow_inf_nan=False)
    tools: list[dict[str, Any]] | None = Field(None, description="For the model's chat template.")
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="More names for the chat template.")
    mm_hashes: list[str] | None = Field(None, description="Identities of the items, hexadecimal, instead of ours.")
    rid: str | None = Field(None, description="Request id, at most 128 printable characters.")
    priority: int = Field(0, ge=-100, le=100, description="Higher goes first.")
    timeout_s: float | None = Field(None, gt=0, le=600, allow_inf_nan=False, description="Time to the deadline.")


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A conversation's call, and whether its stream is to end with the token counts."""

    call: Call
    include_usage: bool


def read_chat(raw: bytes, limits: Limits) -> ChatCall:
    """Check a body and bring it into one form.

    Raises:
        Rejected: naming the field, the message and the part.
    """
    body = read_json(raw)
    parsed = read_known(ChatBody, body)
    conversation = _Conversation()
    messages = [conversation.message(one, f"messages[{number}]") for number, one in enumerate(parsed.messages)]
    sources = conversation.sources
    limits.check_items([source.modality for source in sources])
    chat = Chat(messages, parsed.tools, parsed.chat_template_kwargs or {})
    extensions.check_carried(chat.as_map(), "messages")
    [carried] = columns.extension_maps(body, None, limits)
    [rid] = columns.rids(parsed.rid, None, limits)
    incoming = Incoming(
        prompt=Prompt(chat=chat),
        sources=sources,
        caller_hashes=columns.hashes(parsed.mm_hashes, None)[0],
        extensions=carried,
        sampling=_sampling(parsed),
        samples=parsed.n,
        stream=parsed.stream,
        rid=rid,
        model=parsed.model,
        priority=parsed.priority,
        timeout_ms=None if parsed.timeout_s is None else max(1, int(parsed.timeout_s * 1000)),
    )
    options = parsed.stream_options or StreamOptions()
    return ChatCall(Call((incoming,), is_batch=False, stream=parsed.stream), options.include_usage)


def _sampling(body: ChatBody) -> dict[str, Any]:
    given = {name: getattr(body, name) for name in _FOR_THE_ENGINE}
    given["max_new_tokens"] = body.max_completion_tokens or body.max_tokens
    kept = {name: value for name, value in given.items() if value is not None}
    for name, value in kept.items():
        extensions.check_carried(value, name)
    return kept


@dataclass(slots=True)
class _Conversation:
    """Reads messages one after another and collects their media, by modality in the order of their parts."""

    media: dict[Modality, list[Source]] = field(default_factory=lambda: {kind: [] for kind in Modality})

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(one for kind in (Modality.IMAGE, Modality.VIDEO, Modality.AUDIO) for one in self.media[kind])

    def message(self, message: Mapping[str, Any], path: str) -> dict[str, Any]:
        """A message as the template gets it."""
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise _bad(f"{path}.role", f"must be one of {', '.join(_ROLES)}")
        read = {**message, "role": _ROLES[role]}
        content = message.get("content")
        if content is None and not message.get("tool_calls"):
            raise _bad(f"{path}.content", "must be a string or a list of parts, not null")
        if isinstance(content, list):
            if not content:
                raise _bad(f"{path}.content", "has no part")
            read["content"] = [self._part(part, f"{path}.content[{number}]") for number, part in enumerate(content)]
        elif content is not None and not isinstance(content, str):
            raise _bad(f"{path}.content", f"must be a string or a list of parts, not {json_type(content)}")
        return read

    def _part(self, part: Any, path: str) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise _bad(path, f"must be an object with a type, not {json_type(part)}")
        kind = part.get("type")
        if kind == "text":
            if not isinstance(part.get("text"), str):
                raise _bad(f"{path}.text", f"must be a string, not {json_type(part.get('text'))}")
            return {"type": "text", "text": part["text"]}
        reader = _MEDIA_PARTS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            raise _bad(f"{path}.type", f"must be text or one of {', '.join(_MEDIA_PARTS)}")
        modality, read = reader
        if is_reel(part.get(kind), modality):
            source = read_reel(part[kind], f"{path}.{kind}")
        else:
            text, param = read(part, path)
            source = Source(modality, text, param)
        self.media[modality].append(source)
        return {"type": str(modality)}


def _url_of(name: str) -> Callable[[Mapping[str, Any], str], tuple[str, str]]:
    def read(part: Mapping[str, Any], path: str) -> tuple[str, str]:
        value, param = part.get(name), f"{path}.{name}"
        if isinstance(value, dict):
            value, param = value.get("url"), f"{param}.url"
        if not isinstance(value, str) or not value:
            raise _bad(param, f"must be a URL, not {json_type(value) if value != '' else 'empty'}")
        return value, param

    return read


def _input_audio(part: Mapping[str, Any], path: str) -> tuple[str, str]:
    value = part.get("input_audio")
    data = value.get("data") if isinstance(value, dict) else None
    if data == "":
        raise _bad(f"{path}.input_audio.data", "is empty; the recording in base64 was expected")
    if not isinstance(data, str):
        raise _bad(f"{path}.input_audio.data", "must be the recording in base64")
    return data, f"{path}.input_audio.data"


_MEDIA_PARTS: dict[str, tuple[Modality, Callable[[Mapping[str, Any], str], tuple[str, str]]]] = {
    "image_url": (Modality.IMAGE, _url_of("image_url")),
    "video_url": (Modality.VIDEO, _url_of("video_url")),
    "audio_url": (Modality.AUDIO, _url_of("audio_url")),
    "input_audio": (Modality.AUDIO, _input_audio),
}


def _bad(path: str, rule: str) -> Rejected:
    return Rejected("invalid_request", f"{path} {rule}", param=path)


def described() -> Iterator[str]:
    """The kinds of parts, for the documentation."""
    yield from ("text", *_MEDIA_PARTS)
