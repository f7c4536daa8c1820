"""The answers of the API in OpenAPI. Routes make them as plain maps; tests hold real answers against these models."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

_EXACT = ConfigDict(extra="forbid", protected_namespaces=())


class Described(BaseModel):
    """An answer that has these fields and no others."""

    model_config = _EXACT


class ErrorDetail(Described):
    type: Literal["invalid_request_error", "server_error"]
    code: str = Field(description="Stays the same over releases.")
    message: str
    param: str | None = Field(description="The field that is wrong.")
    rid: str | None


class ErrorAnswer(Described):
    """Every error, whatever its status."""

    error: ErrorDetail


class FinishReason(Described):
    type: str


class GenerationMeta(Described):
    id: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: FinishReason
    e2e_latency: float = Field(description="Seconds.")
    engine: dict[str, Any] | None = Field(None, description="What the engine tells beside its text.")


class Generation(Described):
    text: str
    meta_info: GenerationMeta


class Generations(RootModel[Generation | list[Generation | ErrorAnswer]]):
    """One answer; a list for a batch, or where several were wanted. A prompt that failed has an error in its place."""


class ChatMessage(Described):
    role: Literal["assistant"]
    content: str


class ChatChoice(Described):
    index: int
    message: ChatMessage
    finish_reason: str
    logprobs: None


class Usage(Described):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(Described):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class NormalisationTold(Described):
    mean: list[float]
    std: list[float]
    copies: int


class FeatureTold(Described):
    dtype: str
    shape: list[int]
    normalisation: NormalisationTold | None = None
    sha256: str | None = None
    base64: str | None = None


class ItemTold(Described):
    modality: str
    offsets: list[list[int]] = Field(description="First and last token of each span, both inclusive.")
    hash: str
    digest: str | None
    feature: FeatureTold
    model_specific_data: dict[str, int | float | list[int | float]]
    cached: bool


class PositionsTold(Described):
    positions: list[list[int]]
    delta: int


class ProcessorTold(Described):
    name: str
    fingerprint: str


class Preprocessed(Described):
    rid: str
    model: str
    input_ids: list[int]
    items: list[ItemTold]
    mrope: PositionsTold | None
    processor: ProcessorTold
    node: str
    timings_ms: dict[str, float]


class PreprocessedAll(RootModel[Preprocessed | list[Preprocessed | ErrorAnswer]]):
    """One description, or a list for a batch."""


class FeaturePlanned(Described):
    dtype: str
    shape: list[int]
    bytes: int


class ItemPlanned(Described):
    modality: str
    digest: str
    bytes: int
    tokens: int | None
    feature: FeaturePlanned | None
    model_specific_data: dict[str, int | float | list[int | float]]
    cached: bool


class PlanLimits(Described):
    items: dict[str, int]
    context_tokens: int | None
    item_bytes: int
    request_bytes: int


class Plan(Described):
    rid: str
    model: str
    prompt_tokens: int | None
    items: list[ItemPlanned]
    feature_bytes: int
    pool_bytes: int
    fits_pool: bool
    cpu_s: float
    cpu_s_is_measured: bool
    limits: PlanLimits
    processor: ProcessorTold
    node: str
    timings_ms: dict[str, float]


class Plans(RootModel[Plan | list[Plan | ErrorAnswer]]):
    """One plan, or a list for a batch."""


class Accepted(Described):
    rid: str
    state: str
    model: str
    deadline_ms: int


class AcceptedAll(RootModel[Accepted | list[Accepted | ErrorAnswer]]):
    """One request, or a list for a batch."""


class RequestTold(Described):
    rid: str
    state: str
    position: int | None = Field(description="How many are before it where it waits.")
    model: str
    attempt: int
    node: str | None
    deadline_ms: int
    times_ms: dict[str, int]
    worker_ms: dict[str, float]
    error: ErrorDetail | None
    result: Generation | list[Generation] | dict[str, Any] | None


class RequestBrief(Described):
    rid: str
    state: str
    model: str
    kind: str
    attempt: int
    node: str | None
    accepted_ms: int
    deadline_ms: int


class RequestList(Described):
    data: list[RequestBrief]
    next: str | None = Field(description="The cursor of the next page.")


class Cancelled(Described):
    rid: str
    state: str


class UploadTold(Described):
    id: str
    bytes: int
    expires_ms: int


class ModelTold(Described):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    engine: bool


class ModelList(Described):
    object: Literal["list"]
    data: list[ModelTold]


class ProcessorOffered(Described):
    name: str
    fingerprint: str
    modalities: dict[str, int]
    extensions: bool
    node: str


class ProcessorBroken(Described):
    name: str
    node: str
    reason: str


class ProcessorList(Described):
    object: Literal["list"]
    data: list[ProcessorOffered]
    broken: list[ProcessorBroken]


class Ready(Described):
    status: Literal["ready"]
    models: list[str]


class NotReady(Described):
    status: Literal["not ready"]
    reason: str
