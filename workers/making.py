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
from forebay.processor import Prompt, TypedExtensions, Work
from forebay.ready_made import Item as LoadedItem
from forebay.ready_made import ReadyMade, bytes_of, process
from forebay.task import MediaRef
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
        loaded, extensions = self.checked(job)
        self.planner.check_context(job.body, loaded, extensions)
        own = extensions_by_item(loaded.processor, extensions, [ref.modality for ref in job.body.media])
        if self.cache is not None and loaded.makes_items_alone and job.body.media:
            return self._through_cache(job, loaded, own, self.cache)
        media = self.loader.load_all(job.body.media, loaded, own, job.timings)
        with job.timings.stage("reserve"):
            sizes = (_aligned_bytes(loaded, one, said) for one, said in zip(media, own, strict=True))
            job.reservation.reserve(sum(sizes))
        decoded = tuple(one for one in media if not isinstance(one, ReadyMade))
        if len(decoded) < len(media):
            output = self._by_items(job, loaded, own, media)
        else:
            output = self._by_request(job, loaded, extensions, decoded)
        return output, [False] * len(output.items)

    def _by_items(
        self, job: Job, loaded: LoadedProcessor, own: Sequence[TypedExtensions], media: Sequence[LoadedItem]
    ) -> Output:
        """Each item by itself, where some came ready-made."""
        with job.timings.stage("process"):
            prompt = prompt_ids(prompt_of(job.body, loaded), loaded.tokenizer, loaded.capabilities.vocabulary)
            processed = [
                process(loaded, one, Work(job.task.rid, Prompt(ids=()), (), said, job.reservation.empty))
                for one, said in zip(media, own, strict=True)
            ]
            limit = loaded.capabilities.context_tokens
            return drive_prompt(loaded.processor, prompt, media, processed, job.body.caller_hashes, limit)

    def _by_request(
        self, job: Job, loaded: LoadedProcessor, extensions: TypedExtensions, media: tuple[Media, ...]
    ) -> Output:
        """The request as a whole, by the processor's own flow."""
        work = Work(job.task.rid, prompt_of(job.body, loaded), media, extensions, job.reservation.empty)
        with job.timings.stage("process"):
            output = drive(loaded.processor, loaded.capabilities, work, loaded.tokenizer, job.body.caller_hashes)
        if any(map(told_of, media)) and len(output.items) == len(media):
            output = replace(output, items=tuple(map(_with_what_is_told, output.items, media)))
        return output

    def checked(self, job: Job) -> tuple[LoadedProcessor, TypedExtensions]:
        """The processor of a request, and the extension map as its model types it."""
        loaded = self.processors.get(job.task.model)
        if loaded is None:
            raise Failed("no_processor", f"node {self.node} has no processor for {job.task.model!r}", status=503)
        check_items(loaded.capabilities, [ref.modality for ref in job.body.media])
        self._check_refused(job.body.media)
        extensions = typed_extensions(
            loaded.capabilities,
            job.body.extensions,
            has_media=bool(job.body.media),
            load=loaded.processor.load_extensions,
        )
        return loaded, extensions

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


def _with_what_is_told(item: Item, media: Media) -> Item:
    return replace(item, model_specific={**item.model_specific, **told_of(media)})


def _aligned_bytes(loaded: LoadedProcessor, media: LoadedItem, extensions: TypedExtensions) -> int:
    size = bytes_of(loaded, media, extensions)
    return size + 64 if size else 0
