"""From what a request names to its output: checked, loaded, made or found. The ledger is not its business."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forebay.drive import (
    check_items,
    check_length,
    drive,
    drive_prompt,
    extensions_by_item,
    prompt_ids,
    typed_extensions,
)
from forebay.errors import Failed, Rejected
from forebay.features import Item, Output
from forebay.media import Media
from forebay.plugins import LoadedProcessor
from forebay.processor import Allocate, Prompt, TypedExtensions, Work
from forebay.ready_made import Item as LoadedItem
from forebay.ready_made import ReadyMade, bytes_of, process
from forebay.task import MediaRef, TaskBody
from handoff.pool import FeatureCache
from handoff.refused import MOST_KILLS, Refused
from workers.decode.salvage import told_of
from workers.items import Items
from workers.job import Job
from workers.loader import Loader
from workers.planning import Planner
from workers.prompts import prompt_of


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the outputs of one child. ``cache`` is ``None`` where it is off."""

    node: str
    processors: Mapping[str, LoadedProcessor]
    refused: Refused
    loader: Loader
    planner: Planner
    cache: FeatureCache | None
    video_salvage: bool

    def make(self, job: Job) -> tuple[Output, list[bool]]:
        """The result, and which of its items came from the cache."""
        self.loader.begin()
        loaded, extensions = self.checked(job.task.model, job.body)
        self.planner.check_context(job.body, loaded, extensions)
        own = extensions_by_item(loaded.processor, extensions, [ref.modality for ref in job.body.media])
        if self.cache is not None and loaded.makes_items_alone and job.body.media:
            return self._through_cache(job, loaded, own, self.cache)
        media = self.loader.load_all(job.body.media, loaded, own, job.timings)
        with job.timings.stage("reserve"):
            sizes = (_aligned_bytes(loaded, one, said) for one, said in zip(media, own, strict=True))
            job.reservation.reserve(sum(sizes))
        with job.timings.stage("process"):
            output = output_of(loaded, job.task.rid, job.body, extensions, media, job.reservation.empty)
        return output, [False] * len(output.items)

    def checked(self, model: str, body: TaskBody) -> tuple[LoadedProcessor, TypedExtensions]:
        """The processor of a request, and the extension map as its model types it."""
        loaded = self.processors.get(model)
        if loaded is None:
            raise Failed("no_processor", f"node {self.node} has no processor for {model!r}", status=503)
        check_items(loaded.capabilities, [ref.modality for ref in body.media])
        self._check_refused(body.media)
        return loaded, typed(loaded, body)

    def _check_refused(self, media: Sequence[MediaRef]) -> None:
        """No child is risked for what has ended two."""
        digest = self.refused.among([ref.digest for ref in media]) if media else ""
        if digest:
            param = next(ref.param for ref in media if ref.digest == digest)
            message = f"{param} is in quarantine: {MOST_KILLS} workers have ended while they decoded it"
            raise Rejected("media_quarantined", message, param=param)

    def _through_cache(
        self, job: Job, loaded: LoadedProcessor, own: Sequence[TypedExtensions], cache: FeatureCache
    ) -> tuple[Output, list[bool]]:
        with job.timings.stage("process"):
            prompt = prompt_ids(prompt_of(job.body, loaded), loaded.tokenizer, loaded.capabilities.vocabulary)
        check_length(len(prompt), loaded.capabilities.context_tokens)  # media only make it longer
        items = Items(
            cache=cache,
            reservation=job.reservation,
            loaded=loaded,
            extensions=own,
            load=lambda ref, said: self.loader.load(ref, loaded, said, job.timings),
            timings=job.timings,
            rid=job.task.rid,
            attempt=job.attempt,
            give_up_at=job.give_up_at,
            prompt_tokens=len(prompt),
            video_salvage=self.video_salvage,
        )
        prepared = items.prepare(job.body.media, job.body.tenant)
        with job.timings.stage("process"):
            processed = [one.processed for one in prepared]
            limit = loaded.capabilities.context_tokens
            output = drive_prompt(loaded.processor, prompt, prepared, processed, job.body.caller_hashes, limit)
        return output, [one.is_cached for one in prepared]


def typed(loaded: LoadedProcessor, body: TaskBody) -> TypedExtensions:
    """The extension map of a request as its processor types it.

    Raises:
        Rejected: the processor's own model refuses it.
    """
    return typed_extensions(
        loaded.capabilities, body.extensions, has_media=bool(body.media), load=loaded.processor.load_extensions
    )


def output_of(
    loaded: LoadedProcessor,
    rid: str,
    body: TaskBody,
    extensions: TypedExtensions,
    media: Sequence[LoadedItem],
    allocate: Allocate | None = None,
) -> Output:
    """What a processor makes of a request whose items are loaded, by its own flow; nothing is looked up or kept.

    Raises:
        Rejected: the caller's mistake.
        Failed: the processor's mistake, or no room for its arrays.
    """
    prompt = prompt_of(body, loaded)
    decoded = tuple(one for one in media if not isinstance(one, ReadyMade))
    if len(decoded) < len(media):
        return _by_items(loaded, rid, body, extensions, media, allocate)
    work = Work(rid, prompt, decoded, extensions, allocate)
    output = drive(loaded.processor, loaded.capabilities, work, loaded.tokenizer, body.caller_hashes)
    if any(map(told_of, decoded)) and len(output.items) == len(decoded):
        output = replace(output, items=tuple(map(_with_what_is_told, output.items, decoded)))
    return output


def _by_items(
    loaded: LoadedProcessor,
    rid: str,
    body: TaskBody,
    extensions: TypedExtensions,
    media: Sequence[LoadedItem],
    allocate: Allocate | None,
) -> Output:
    """Each item by itself, where some came ready-made."""
    own = extensions_by_item(loaded.processor, extensions, [one.modality for one in media])
    prompt = prompt_ids(prompt_of(body, loaded), loaded.tokenizer, loaded.capabilities.vocabulary)
    processed = []
    for one, said in zip(media, own, strict=True):
        made = process(loaded, one, Work(rid, Prompt(ids=()), (), said, allocate))
        processed.append(replace(made, model_specific={**made.model_specific, **told_of(one)}))
    limit = loaded.capabilities.context_tokens
    return drive_prompt(loaded.processor, prompt, media, processed, body.caller_hashes, limit)


def _with_what_is_told(item: Item, media: Media) -> Item:
    return replace(item, model_specific={**item.model_specific, **told_of(media)})


def _aligned_bytes(loaded: LoadedProcessor, media: LoadedItem, extensions: TypedExtensions) -> int:
    size = bytes_of(loaded, media, extensions)
    return size + 64 if size else 0
