"""``/v1/plan``: what a request would become, from the headers of its media.

Nothing is made or held, and nothing decoded but a video's first frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from forebay.drive import check_length, drive_prompt, extensions_by_item, prompt_ids
from forebay.errors import Failed, Rejected
from forebay.features import Feature, Modality, Planned, Processed
from forebay.media import Audio, Image, Video
from forebay.plugins import LoadedProcessor
from forebay.processor import TypedExtensions
from forebay.ready_made import Item, bytes_of, planned_of
from forebay.task import MediaRef, TaskBody
from handoff.media import MediaStore
from handoff.pool import FeatureCache
from handoff.ready_made import is_ready_made
from workers.decode.audio import audio_length
from workers.decode.header import image_size
from workers.decode.video import outline_video
from workers.entries import key_of
from workers.pace import Pace
from workers.prompts import prompt_of
from workers.ready_made import read_ready_made


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans requests on one node. ``cache`` is ``None`` where it is off."""

    store: MediaStore
    cache: FeatureCache | None
    pool_bytes: int
    pace: Pace
    video_salvage: bool = False
    guarded: Callable[[MediaRef], AbstractContextManager[None]] = lambda _: nullcontext()
    """Holds whatever reads an item's bytes to the limits of an item."""

    def plan(self, model: str, body: TaskBody, loaded: LoadedProcessor, extensions: TypedExtensions) -> dict[str, Any]:
        """The answer of ``/v1/plan``, but for what only the API knows.

        Raises:
            Rejected: what the request itself would be refused for, as far as headers tell.
            Failed: media are gone.
        """
        own = extensions_by_item(loaded.processor, extensions, [ref.modality for ref in body.media])
        media, planned = self._foreseen(body, loaded, own)
        cached = self._cached(body, loaded, own)
        rows = [_row(ref, one, found) for ref, one, found in zip(body.media, planned, cached, strict=True)]
        # What is reserved: an item may have more features than the one that is planned.
        sizes = [bytes_of(loaded, one, said) for one, said in zip(media, own, strict=True)]
        size = sum(sizes)
        to_make = sum(one for one, found in zip(sizes, cached, strict=True) if not found)
        return {
            "prompt_tokens": _prompt_tokens(body, loaded, media, planned),
            "items": rows,
            "feature_bytes": size,
            "pool_bytes": self.pool_bytes,
            "fits_pool": size <= self.pool_bytes,
            "cpu_s": round(self.pace.estimate_s(model, to_make), 6),
            "cpu_s_is_measured": self.pace.is_measured(model),
            "limits": {
                "items": {str(kind): most for kind, most in loaded.capabilities.modalities.items()},
                "context_tokens": loaded.capabilities.context_tokens,
            },
        }

    def check_context(self, body: TaskBody, loaded: LoadedProcessor, extensions: TypedExtensions) -> None:
        """Refuse a prompt that is too long with its media, before any of them is decoded.

        Whatever else is wrong is left to the decoder, which judges the whole file; and where nothing is to be decoded,
        the length is known soon enough.

        Raises:
            Rejected: ``prompt_too_long``, or an item takes too much even to look at.
        """
        if loaded.capabilities.context_tokens is None:
            return
        own = extensions_by_item(loaded.processor, extensions, [ref.modality for ref in body.media])
        if all(self._cached(body, loaded, own)):
            return
        try:
            _prompt_tokens(body, loaded, *self._foreseen(body, loaded, own))
        except (Rejected, Failed) as error:
            if error.code in ("prompt_too_long", "media_too_slow", "media_too_costly"):
                raise

    def _foreseen(
        self, body: TaskBody, loaded: LoadedProcessor, own: Sequence[TypedExtensions]
    ) -> tuple[list[Item], list[Planned | None]]:
        """The items with nothing in them, and what will become of each."""
        media = [self._outline(ref, loaded, one) for ref, one in zip(body.media, own, strict=True)]
        return media, [planned_of(loaded, one, said) for one, said in zip(media, own, strict=True)]

    def _outline(self, ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions) -> Item:
        """An item of the right size, with nothing in it."""
        data = self.store.get(ref.digest)
        with self.guarded(ref):
            return self._outline_of(data, ref, loaded, extensions)

    def _outline_of(self, data: bytes, ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions) -> Item:
        if is_ready_made(data):
            return read_ready_made(data, ref, loaded, extensions)
        if ref.modality is Modality.IMAGE:
            height, width = image_size(data, ref.param)
            pixels = np.broadcast_to(np.zeros((), np.uint8), (height, width, 3))
            return Image(pixels, ref.digest, 0, ref.param)
        if ref.modality is Modality.AUDIO:
            rate = loaded.capabilities.audio_rate_hz
            samples = np.broadcast_to(np.zeros((), np.float32), (audio_length(data, rate, ref.param),))
            return Audio(samples, rate, ref.digest, 0, ref.param)
        choose = partial(loaded.choose_frames, extensions=extensions, param=ref.param)
        video = outline_video(data, choose, ref.param, salvage=self.video_salvage)
        return Video(video.frames, video.indices, video.times_s, video.clip, ref.digest, 0, ref.param)

    def _cached(self, body: TaskBody, loaded: LoadedProcessor, own: Sequence[TypedExtensions]) -> list[bool]:
        if self.cache is None or not loaded.makes_items_alone:
            return [False] * len(body.media)
        keys = [
            key_of(ref, loaded, one, body.tenant, video_salvage=self.video_salvage)
            for ref, one in zip(body.media, own, strict=True)
        ]
        return self.cache.has(keys)


def _row(ref: MediaRef, planned: Planned | None, is_cached: bool) -> dict[str, Any]:
    feature: Mapping[str, Any] | None = None
    if planned:
        feature = {"dtype": str(planned.dtype), "shape": list(planned.shape), "bytes": planned.size_bytes}
    return {
        "modality": str(ref.modality),
        "digest": ref.digest,
        "bytes": ref.size_bytes,
        "tokens": planned.tokens if planned else None,
        "feature": feature,
        "model_specific_data": dict(planned.model_specific) if planned else {},
        "cached": is_cached,
    }


def _prompt_tokens(
    body: TaskBody, loaded: LoadedProcessor, media: Sequence[Item], planned: Sequence[Planned | None]
) -> int | None:
    """Tokens of the expanded prompt; ``None`` where only the processor itself could tell."""
    if not loaded.has_usual_flow or not all(planned):
        return None
    prompt = prompt_ids(prompt_of(body, loaded), loaded.tokenizer, loaded.capabilities.vocabulary)
    outlines = [_outline_of(one) for one in planned if one]
    limit = loaded.capabilities.context_tokens
    check_length(sum(one.tokens for one in outlines), limit, at_least=True)  # before the prompt is laid out
    return len(drive_prompt(loaded.processor, prompt, media, outlines, context_tokens=limit).input_ids)


def _outline_of(planned: Planned) -> Processed:
    """A feature of the right shape, with nothing in it."""
    array = np.broadcast_to(np.zeros((), planned.dtype.carrier), planned.shape)
    return Processed(Feature.of(array, planned.dtype), planned.tokens, planned.model_specific)
