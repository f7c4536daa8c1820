"""The processor contract: what a model package brings so that Forebay can prepare its inputs.

A family describes data; ``forebay.drive`` owns the flow. The usual family implements ``process_item``, ``layout``
and, where the model has them, ``positions``. A package that needs the whole flow overrides ``process``.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from forebay.chat import Chat
from forebay.dtypes import DType
from forebay.errors import Rejected
from forebay.features import Modality, Output, Planned, Positions, Processed
from forebay.layout import Expansion, Layout
from forebay.media import Clip, Media
from forebay.model import ModelSource

TypedExtensions = BaseModel | None
"""The extension map of a request as its processor's own model sees it; ``None`` where the processor has no model."""

Allocate = Callable[[tuple[int, ...], DType], npt.NDArray[Any]]


class Tokenizer(Protocol):
    """What the flow needs of a tokenizer. One instance serves one process."""

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``; special tokens spelled out in it are recognised, none is added."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens left out."""
        ...

    @property
    def size(self) -> int:
        """Number of ids, so that a valid id is in ``[0, size)``."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a processor takes, declared once when it is loaded.

    Attributes:
        modalities: the most items of each modality that one request may carry; absent means unsupported.
        placeholders: the token that stands for one item of a modality in a prompt.
        extensions: pydantic model of the ``multimodal_*`` map; ``None`` refuses a non-empty map.
        audio_rate_hz: sample rate at which audio is handed over.
        rows_per_token: rows of a feature (its first axis) behind one token, where that is fixed.
        vocabulary: number of valid token ids, where the processor knows it better than the tokenizer.
        context_tokens: the longest expanded prompt that the model takes, where that is known.
        needs_prompt_tokens: whether the flow must tokenize the prompt; off for models that read no text.
        cacheable: whether ``process_item`` reads nothing but its item, the extension map and the model's own settings,
            so that its result may serve every request with the same item. It then gets a ``Work`` without prompt or
            other media. Of no effect where ``process`` is overridden.
        item_fields: the fields of ``extensions`` that ``process_item`` reads; ``None`` stands for all of them.
    """

    modalities: Mapping[Modality, int]
    placeholders: Mapping[Modality, int] = field(default_factory=dict)
    extensions: type[BaseModel] | None = None
    audio_rate_hz: int = 16_000
    rows_per_token: int | None = None
    vocabulary: int | None = None
    context_tokens: int | None = None
    needs_prompt_tokens: bool = True
    cacheable: bool = False
    item_fields: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt as the caller gave it: text, token ids, or a conversation; one of them.

    A processor never sees a conversation: it is rendered and tokenized before.
    """

    text: str | None = None
    ids: tuple[int, ...] | None = None
    chat: Chat | None = None


@dataclass(slots=True)
class Work:
    """One request, as a processor sees it. Nothing of it may be kept after ``process`` returns.

    Attributes:
        rid: the request id, for messages only.
        prompt: text or ids, before tokenization.
        media: decoded items, in the caller's order.
        extensions: the instance of the processor's own extension model, or ``None``.
        allocate: gives the output arrays; on a worker they lie in the feature pool.
    """

    rid: str
    prompt: Prompt
    media: tuple[Media, ...] = ()
    extensions: BaseModel | None = None
    allocate: Allocate | None = None

    def empty(self, shape: Sequence[int], dtype: DType = DType.FLOAT32) -> npt.NDArray[Any]:
        """An uninitialised C-order array for one feature, 64-byte aligned; written in place, never copied again.

        Raises:
            Failed: ``pool_full`` or ``feature_too_large``, when the pool has no room for it.
        """
        if self.allocate is None:
            return np.empty(tuple(shape), dtype.carrier)
        return self.allocate(tuple(shape), dtype)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """Where a processor finds itself when its child starts.

    Attributes:
        child: its number among the node's children.
        cores: the cores that it is pinned to; empty when it is not.
    """

    child: int
    cores: tuple[int, ...]


class Processor(ABC):
    """A model family's preprocessing. One instance lives in each worker process and serves one request at a time."""

    feature_dtypes: ClassVar[tuple[DType, ...]] = (DType.FLOAT32,)
    """Element types in which it can write features; ``self.model.feature_dtype`` is the one that was asked for."""

    def __init__(self, model: ModelSource) -> None:
        self.model = model

    @classmethod
    def build(cls, model: ModelSource) -> Self:
        """The instance for a model: where a package looks into the folder before it decides which of its classes it is.

        Raises:
            ConfigurationError: the folder will not do.
        """
        return cls(model)

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this processor takes. Called once."""

    def start_worker(self, start: WorkerStart) -> None:  # noqa: B027 - a hook that does nothing unless it is wanted
        """In each child, once, after the fork and before its first request: warm up, open what must not be shared.

        What it raises makes the model one that this node cannot serve; the others are served.
        """

    def cpu_threads(self, cores: int) -> int:
        """How many threads one item may compute with, of the ``cores`` that a child has. The largest of all models
        counts. One is right where children have a core each: their number is what scales.
        """
        return 1

    def load_extensions(self, kind: type[BaseModel], fields: Mapping[str, Any]) -> BaseModel:
        """The extension map of a request, as ``capabilities().extensions`` types it.

        Args:
            kind: that model.
            fields: the map as the caller sent it, and as it is kept from here on: nothing of it may be changed.

        Raises:
            pydantic.ValidationError: told to the caller with the field's path.
            Rejected: anything else that is the caller's mistake.
        """
        return kind.model_validate(dict(fields))

    def wrap_result(self, output: Output) -> Output:
        """The last word on a result, before it is checked: what is to be told of a request as a whole. It runs for each
        request, also where every item came from the cache; the features of items are not to be touched.
        """
        return output

    def config(self) -> Mapping[str, Any]:
        """Every setting that changes the features; part of the fingerprint. JSON values only."""
        return {}

    def tokenizer(self) -> Tokenizer | None:
        """A tokenizer of the processor's own; ``None`` takes ``tokenizer.json`` of the model folder, if any."""
        return None

    def extensions_of(
        self, extensions: TypedExtensions, modalities: Sequence[Modality], number: int
    ) -> TypedExtensions:
        """What of a request's extension map is about one of its items; all of it, where nothing is said item by item.

        ``sample_frames``, ``plan_with`` and ``process_item`` get what this returns, and an item is cached by it. Who
        overrides ``process`` sees the whole map there.

        Args:
            extensions: the map as the processor's own model sees it.
            modalities: what the request's items are, in their order.
            number: which of them it is.

        Raises:
            Rejected: the map does not suit the items.
        """
        return extensions

    def sample_frames(self, clip: Clip, extensions: TypedExtensions) -> Sequence[int]:
        """Which frames of a video it wants, ascending; only these are decoded to pixels. No look at the content.

        Whoever declares ``Modality.VIDEO`` writes it. The choice may depend on the clip, the extension map and the
        model's settings, and on nothing else: features are cached by these.

        Args:
            clip: what the video is; it has at least one frame.
            extensions: the map as the processor's own model sees it.

        Returns:
            At least one index, each in ``[0, clip.frames)``.

        Raises:
            Rejected: no choice can be made.
        """
        raise Rejected("unsupported_modality", "this processor takes no video")

    def plan_item(self, media: Media) -> Planned | None:
        """What will become of an item, without a look at its content: pixels and samples may be a view of nothing.

        ``/v1/plan`` tells it, and room for the request is reserved by it. ``None`` when it is not known beforehand.

        Raises:
            Rejected: as ``process_item`` will.
        """
        return None

    def plan_with(self, media: Media, extensions: TypedExtensions) -> Planned | None:
        """As ``plan_item``, for a request with an extension map. Override it where the map changes a feature's size.

        Raises:
            Rejected: as ``process_item`` will.
        """
        return self.plan_item(media)

    def feature_bytes(self, media: Media) -> int:
        """Bytes that will be asked for, so that one block is reserved for the request; 0 if unknown."""
        return self._bytes_of(media, self.plan_item)

    def feature_bytes_with(self, media: Media, extensions: TypedExtensions) -> int:
        """As ``feature_bytes``, for a request with an extension map; it follows from ``plan_with``."""
        if type(self).plan_with is Processor.plan_with:
            return self.feature_bytes(media)
        return self._bytes_of(media, lambda one: self.plan_with(one, extensions))

    @staticmethod
    def _bytes_of(media: Media, plan: Callable[[Media], Planned | None]) -> int:
        try:
            planned = plan(media)
        except Rejected:
            return 0  # it will be refused, and nothing asked for
        return planned.size_bytes if planned else 0

    def process_item(self, media: Media, work: Work) -> Processed:
        """Turn one decoded item into its feature, written into an array from ``work.empty``."""
        raise Rejected("unsupported_modality", f"this processor takes no {media.modality}")

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        """The tokens that replace the item's placeholder."""
        raise Rejected("unsupported_modality", f"this processor takes no {modality}")

    def positions(self, expansion: Expansion, items: Sequence[Processed]) -> Positions | None:
        """M-RoPE positions of the expanded prompt; ``None`` for models with ordinary positions."""
        return None

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        """The whole flow. Override it only to take over; the result is validated all the same."""
        from forebay.drive import usual_flow  # the flow knows processors; a processor need not know the flow

        return usual_flow(self, work, tokenizer)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Identity of a processor's output: package, version, settings. Two with the same one compute the same."""

    text: str

    @classmethod
    def of(cls, name: str, package: str, version: str, config: Mapping[str, Any]) -> Fingerprint:
        canonical = json.dumps([name, package, version, config], sort_keys=True, separators=(",", ":"))
        return cls(hashlib.sha256(canonical.encode()).hexdigest()[:16])
