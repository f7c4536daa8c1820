"""The CPU side, with every hook of the contract.

It takes over the whole flow, because a page is several items to the model and the hint goes into the prompt, and leaves
to the usual flow what is usual.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Self, cast

import numpy as np
from pydantic import BaseModel

from forebay import (
    Capabilities,
    Clip,
    Expansion,
    Feature,
    Image,
    Item,
    Layout,
    Media,
    Modality,
    ModelSource,
    Output,
    Planned,
    Positions,
    Processed,
    Processor,
    Prompt,
    Rejected,
    Run,
    Span,
    Tokenizer,
    Video,
    Work,
    WorkerStart,
)
from forebay_layout_demo.options import LayoutOptions
from forebay_layout_demo.page import Page, Part
from forebay_layout_demo.settings import TWO_D, Settings

log = logging.getLogger(__name__)

MOST_PAGES, MOST_FILMS = 4, 1


class LayoutDemoProcessor(Processor):
    """Makes patches and a thumbnail of each page, crops and places of its regions."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        # torch is loaded with the first processor, not with this module: whoever only looks must not pay for it.
        from forebay_layout_demo import picture

        self._picture = picture
        self._settings = Settings.read(model)

    # What it is.

    @classmethod
    def build(cls, model: ModelSource) -> Self:
        """The class that the folder asks for: models of this kind differ in their positions, and in nothing else."""
        is_two_d = Settings.read(model).page_positions == TWO_D
        return cast("Self", (LayoutDemo2D if is_two_d else LayoutDemoProcessor)(model))

    def capabilities(self) -> Capabilities:
        settings = self._settings
        return Capabilities(
            modalities={Modality.IMAGE: MOST_PAGES, Modality.VIDEO: MOST_FILMS},
            placeholders={Modality.IMAGE: settings.page_token_id, Modality.VIDEO: settings.film_token_id},
            extensions=LayoutOptions,
            rows_per_token=1,  # of each feature
            vocabulary=settings.vocab_size,
            context_tokens=settings.max_position_embeddings,
        )

    def config(self) -> Mapping[str, Any]:
        return self._settings.as_map()

    # When its worker starts.

    def start_worker(self, start: WorkerStart) -> None:
        """The library prepares itself when it is first used: on a blank page, so that no caller waits for it."""
        self.process_item(_BLANK, Work("warm-up", Prompt(ids=()), (_BLANK,), LayoutOptions()))
        cores = ",".join(map(str, start.cores)) or "any"
        log.info("page reader is warm", extra={"child": start.child, "cores": cores})

    def cpu_threads(self, cores: int) -> int:
        """The library shrinks the three colours of a page side by side; a fourth thread would idle."""
        return min(cores, 3)

    # The extension map.

    def load_extensions(self, kind: type[BaseModel], fields: Mapping[str, Any]) -> BaseModel:
        """How many boxes are read is the folder's to say, and the class ``kind`` knows no folder."""
        return kind.model_validate(dict(fields), context={"max_boxes": self._settings.max_boxes})

    def extensions_of(self, extensions: BaseModel | None, modalities: Sequence[Modality], number: int) -> BaseModel:
        """A page's own boxes; the hint is about no page."""
        return _options(extensions).of_page(number, len(modalities))

    # One page, by the usual flow.

    def sample_frames(self, clip: Clip, extensions: BaseModel | None) -> Sequence[int]:
        """The middle frame of a filmed page: a hand shakes most when it starts and stops the camera."""
        return (clip.frames // 2,)

    def plan_with(self, media: Media, extensions: BaseModel | None) -> Planned:
        return Page.of(media, extensions).planned

    def feature_bytes_with(self, media: Media, extensions: BaseModel | None) -> int:
        """Of all features of a page: by itself the flow would make room for the one that is planned."""
        try:
            return Page.of(media, extensions).size_bytes
        except Rejected:
            return 0  # it will be refused, and nothing asked for

    def process_item(self, media: Media, work: Work) -> Processed:
        page = Page.of(media, work.extensions)
        feature = self._feature(Part.PATCHES, media, page, work)
        return Processed(feature, page.planned.tokens, page.planned.model_specific)

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        """The thumbnail, rows of patches with a mark behind each, then each region's crop and place.

        What carries no patches carries the other features: ``process`` finds it by its distance from them.
        """
        settings, told = self._settings, processed.model_specific
        rows, columns = cast("list[int]", told["grid"])
        row = (Run(settings.page_token_id, columns), Run(settings.row_token_id, 1, carries=False))
        thumbnail, crop, place = (
            Run(token, 1, carries=False)
            for token in (settings.thumbnail_token_id, settings.crop_token_id, settings.place_token_id)
        )
        return Layout((thumbnail, *row * rows, *(crop, place) * cast("int", told["boxes"])))

    # The whole flow, around the usual one.

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        """The hint's tokens and the prompt's, the usual flow for the patches, then what else a page has."""
        options = _options(work.extensions)
        options.check_pages(len(work.media))  # boxes without a page, too
        pages = [Page.of(one, options.of_page(number, len(work.media))) for number, one in enumerate(work.media)]
        ids = (*self._hint_ids(options.multimodal_hint, tokenizer), *_prompt_ids(work.prompt, tokenizer))
        output = super().process(replace(work, prompt=Prompt(ids=ids)), tokenizer)
        items = [
            item
            for number, (patches, media, page) in enumerate(zip(output.items, work.media, pages, strict=True))
            for item in self._items_of(number, patches, media, page, work)
        ]
        return replace(output, items=tuple(items))

    def wrap_result(self, output: Output) -> Output:
        """How much the request has of everything stands with its first item: the model makes room by it."""
        if not output.items:
            return output
        first, *others = output.items
        parts = [item.model_specific["part"] for item in output.items]
        regions = sum(item.tokens for item, part in zip(output.items, parts, strict=True) if part == Part.CROPS)
        told = {**first.model_specific, "pages": parts.count(Part.PATCHES), "regions": regions}
        return replace(output, items=(replace(first, model_specific=told), *others))

    def _hint_ids(self, hint: str | None, tokenizer: Tokenizer | None) -> Sequence[int]:
        ids = _encode(hint, tokenizer, "multimodal_hint") if hint else ()
        mark = next((one for one in ids if one in self._settings.marks), None)
        if mark is not None:  # a hint with a placeholder would ask for one more page
            message = f"multimodal_hint spells the model's own token {mark}; a hint is text"
            raise Rejected("invalid_extensions", message, param="multimodal_hint")
        return ids

    def _items_of(self, number: int, patches: Item, media: Media, page: Page, work: Work) -> Iterator[Item]:
        """All items of a page, of which the usual flow has made the first."""
        yield replace(patches, model_specific=_told(Part.PATCHES, number, **patches.model_specific))
        spans = _spans(patches.spans, len(page.boxes))
        for part in list(page.shapes)[1:]:
            feature = self._feature(part, media, page, work)
            told = _told(part, number)
            if part is Part.PLACES:
                told["boxes"] = [edge for box in page.boxes for edge in box]  # a small array, [boxes, 4] row by row
            # The media's own hash is the patches'. A cache of prefixes must not take one region for another.
            own = sha256(f"{media.digest} {part} {page.boxes}".encode()).digest()
            name = int.from_bytes(own[:8], "big")
            yield Item(media.modality, feature, spans[part], len(spans[part]), name, media.digest, told)

    def _feature(self, part: Part, media: Media, page: Page, work: Work) -> Feature:
        array = work.empty(page.shapes[part], part.dtype)
        self._picture.write(part, _pixels(media), page, array)
        normalisation = self._picture.NORMALISATION if part is Part.THUMBNAIL else None
        return Feature.of(array, part.dtype, normalisation)


class LayoutDemo2D(LayoutDemoProcessor):
    """For models whose positions follow the rows and columns of a page."""

    def positions(self, expansion: Expansion, items: Sequence[Processed]) -> Positions:
        """Three times a token's number; of a patch its number, its row and its column."""
        mrope = np.tile(np.arange(len(expansion.input_ids), dtype=np.int64), (3, 1))
        for spans in expansion.spans:
            for row, span in enumerate(spans):
                mrope[1, span.first : span.last + 1] = row
                mrope[2, span.first : span.last + 1] = np.arange(span.length)
        return Positions(mrope, delta=0)


_BLANK = Image(np.full((1, 1, 3), 255, np.uint8), "", 0)


def _options(extensions: BaseModel | None) -> LayoutOptions:
    assert isinstance(extensions, LayoutOptions)  # what ``capabilities`` declares
    return extensions


def _pixels(media: Media) -> Any:
    """``uint8 [height, width, 3]``: of a film, those of the only frame."""
    return media.frames[0] if isinstance(media, Video) else cast("Image", media).pixels


def _prompt_ids(prompt: Prompt, tokenizer: Tokenizer | None) -> Sequence[int]:
    return _encode(prompt.text or "", tokenizer, "text") if prompt.ids is None else prompt.ids


def _encode(text: str, tokenizer: Tokenizer | None, param: str) -> list[int]:
    """By the host's tokenizer, which is that of the model's folder."""
    if tokenizer is None:
        raise Rejected("no_tokenizer", f"this model has no tokenizer, which {param} needs", param=param)
    return tokenizer.encode(text)


def _told(part: Part, page: int, **more: Any) -> dict[str, Any]:
    return {"part": int(part), "page": page, **more}


def _spans(rows: Sequence[Span], boxes: int) -> Mapping[Part, tuple[Span, ...]]:
    """Where the other features stand, when a page's patches stand in these rows: see ``layout``."""
    before, behind = rows[0].first - 1, rows[-1].last + 2
    crops = tuple(Span(at, at) for at in range(behind, behind + 2 * boxes, 2))
    places = tuple(Span(crop.last + 1, crop.last + 1) for crop in crops)
    return {Part.THUMBNAIL: (Span(before, before),), Part.CROPS: crops, Part.PLACES: places}
