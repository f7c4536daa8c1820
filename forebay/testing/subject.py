"""What is examined: a processor, the requests it is asked, and what it made of an item as values to compare."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.drive import drive, extensions_by_item, typed_extensions
from forebay.features import Attribute, Item, Modality, Output, Processed, Span
from forebay.media import Media
from forebay.processor import Allocate, Capabilities, Processor, Prompt, Tokenizer, TypedExtensions, Work
from forebay.testing.media import Made, array_of, noise, outline_of, placed
from forebay.testing.report import Timing

# Small, of no even size, and no two alike; the largest model of pictures makes a few dozen tokens of them.
_SIZES: dict[Modality, tuple[tuple[int, ...], ...]] = {
    Modality.IMAGE: ((61, 83), (48, 36)),
    Modality.VIDEO: ((9, 61, 83), (4, 48, 36)),
    Modality.AUDIO: ((16_003,), (9_000,)),
}


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request, which can be asked any number of times: each time with media of its own."""

    name: str
    media: tuple[Made, ...]
    prompt: Prompt
    extensions: Mapping[str, Any] = field(default_factory=dict)
    caller_hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """An output as it was when it was made, whatever becomes of the arrays behind it."""

    input_ids: npt.NDArray[np.int64]
    features: tuple[npt.NDArray[Any], ...]
    spans: tuple[tuple[Span, ...], ...]
    model_specific: tuple[Mapping[str, Attribute], ...]
    hashes: tuple[int | None, ...]

    @classmethod
    def of(cls, output: Output) -> Snapshot:
        return cls(
            output.input_ids.copy(),
            tuple(item.feature.array.copy() for item in output.items),
            tuple(item.spans for item in output.items),
            tuple(dict(item.model_specific) for item in output.items),
            tuple(item.hash for item in output.items),
        )

    def difference(self, other: Snapshot, *, is_rounding_allowed: bool = False) -> str:
        """What differs between them, hashes apart; empty when nothing does.

        Args:
            other: what it is compared with.
            is_rounding_allowed: whether the last bits of float32 may differ, as they do with another number of threads.
        """
        is_same = _is_near if is_rounding_allowed else np.array_equal
        if not np.array_equal(self.input_ids, other.input_ids):
            return "input_ids differ"
        if len(self.features) != len(other.features):
            return f"there are {len(self.features)} items, then {len(other.features)}"
        for number, (one, another) in enumerate(zip(self.features, other.features, strict=True)):
            if one.dtype != another.dtype or one.shape != another.shape or not is_same(one, another):
                return f"item {number} differs"
            if self.spans[number] != other.spans[number]:
                return f"the spans of item {number} differ"
            if self.model_specific[number] != other.model_specific[number]:
                return f"the model-specific values of item {number} differ"
        return ""


def _is_near(one: npt.NDArray[Any], another: npt.NDArray[Any]) -> bool:
    if one.dtype != np.float32:
        return np.array_equal(one, another)
    return bool(np.allclose(one, another, rtol=1e-5, atol=1e-6 * max(1.0, float(np.abs(one).max(initial=0)))))


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """An item that was asked for, as a plan would see it, and what was made of it."""

    outline: Media
    extensions: TypedExtensions
    item: Item | Processed


@dataclass(slots=True, eq=False)
class Subject:
    """A processor under examination. The checks leave here what later ones need."""

    processor: Processor
    capabilities: Capabilities
    tokenizer: Tokenizer | None
    requests: tuple[Request, ...]
    calls: int
    may_probe: bool = True
    """Whether another process may be started."""
    outputs: list[Output] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    answer: object = None  # of a fresh process, once it was asked
    threads: frozenset[threading.Thread] = field(default_factory=lambda: frozenset(threading.enumerate()))

    @property
    def has_usual_flow(self) -> bool:
        return type(self.processor).process is Processor.process

    @property
    def can_be_probed(self) -> bool:
        """Whether another process may be asked, and finds its class by module and name."""
        cls = type(self.processor)
        found: Any = sys.modules.get(cls.__module__)
        for name in cls.__qualname__.split("."):
            found = getattr(found, name, None)
        return self.may_probe and found is cls and cls.__module__ != "__main__"

    @property
    def makes_items_alone(self) -> bool:
        """Whether what it makes of an item may serve other requests."""
        return self.capabilities.cacheable and self.has_usual_flow

    def typed(self, request: Request) -> TypedExtensions:
        return self.typed_map(request.extensions)

    def typed_map(self, extensions: Mapping[str, Any]) -> TypedExtensions:
        """An extension map as the processor sees it.

        Raises:
            Rejected: it is refused.
        """
        return typed_extensions(self.capabilities, extensions, load=self.processor.load_extensions)

    def own(self, request: Request, typed: TypedExtensions) -> list[TypedExtensions]:
        """For each item of a request what of its map is about it.

        Raises:
            Rejected: the map does not suit the items.
        """
        return extensions_by_item(self.processor, typed, [one.whole.modality for one in request.media])

    def process(self, work: Work) -> Output:
        """The processor's own part of the flow, whose result nobody has looked at."""
        return self.processor.wrap_result(self.processor.process(work, self.tokenizer))

    def work(self, request: Request, typed: TypedExtensions, allocate: Allocate | None = None) -> Work:
        """The request as the processor gets it."""
        own = self.own(request, typed)
        media = placed([one.make(self.processor, said) for one, said in zip(request.media, own, strict=True)])
        return Work("check", request.prompt, media, typed, allocate)

    def ask(self, request: Request, typed: TypedExtensions = None) -> Output:
        """Drive the request once, as a worker does.

        Args:
            request: what is asked.
            typed: another extension map than the request's own.

        Raises:
            Rejected, Failed: as on a worker.
        """
        return self.drive(self.work(request, typed or self.typed(request)), request.caller_hashes)

    def drive(self, work: Work, caller_hashes: Sequence[str] = ()) -> Output:
        return drive(self.processor, self.capabilities, work, self.tokenizer, caller_hashes)

    def note(self, work: Work, output: Output) -> None:
        """Remember what became of each item."""
        if len(work.media) == len(output.items):
            for media, item in zip(work.media, output.items, strict=True):
                self.seen.append(Seen(outline_of(media), work.extensions, item))

    def request_of(self, modality: Modality, *items: Made, extensions: Mapping[str, Any] | None = None) -> Request:
        """A request about some items of a modality."""
        names = ", ".join(str(list(_shape(one.whole))) for one in items)
        prompt = Prompt(ids=prompt_for(self.capabilities, modality, len(items)))
        return Request(f"{modality} {names}", items, prompt, extensions or {})


def _shape(media: Media) -> tuple[int, ...]:
    shape = array_of(media).shape
    return shape[:-1] if len(shape) > 1 else shape


def prompt_for(capabilities: Capabilities, modality: Modality, items: int, first: int = 0) -> tuple[int, ...]:
    """Token ids with a placeholder for each item, and words around them that are no placeholders.

    Args:
        capabilities: what the processor has declared.
        modality: of the items.
        items: how many.
        first: the words to begin with, so that another number gives other words.
    """
    words = _words(capabilities, first + items + 1)[first:]
    placeholder = capabilities.placeholders.get(modality)
    if placeholder is None:
        return tuple(words)
    ids = [words[0]]
    for word in words[1 : items + 1]:
        ids += [placeholder, word]
    return tuple(ids)


def _words(capabilities: Capabilities, count: int) -> list[int]:
    """So many ids that stand for nothing but themselves, from 1 on; the last ones repeat in a tiny vocabulary."""
    taken = set(capabilities.placeholders.values())
    limit = capabilities.vocabulary or count + len(taken) + 1
    free = [number for number in range(1, min(limit, count + len(taken) + 1)) if number not in taken] or [0]
    return (free * count)[:count]


def standard_requests(capabilities: Capabilities) -> tuple[Request, ...]:
    """A request for each modality that is taken, with two items where two are."""
    requests = []
    for modality, limit in capabilities.modalities.items():
        sizes = _SIZES[modality][: max(1, min(limit, 2))]
        items = tuple(
            Made(noise(modality, size, capabilities.audio_rate_hz, seed), is_sampled=True)
            for seed, size in enumerate(sizes)
        )
        prompt = Prompt(ids=prompt_for(capabilities, modality, len(items)))
        requests.append(Request(str(modality), items, prompt))
    return tuple(requests)


def given_request(
    media: Iterable[Media],
    *,
    text: str | None = None,
    input_ids: Sequence[int] | None = None,
    extensions: Mapping[str, Any] | None = None,
    caller_hashes: Sequence[str] = (),
) -> Request:
    """A request of the author's own."""
    prompt = Prompt(text, None if input_ids is None else tuple(input_ids))
    return Request("request", tuple(map(Made, media)), prompt, extensions or {}, tuple(caller_hashes))
