"""The processors of pictures of one size: one that makes embeddings' input, one that reads them among words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forebay import (
    Capabilities,
    DType,
    Feature,
    Image,
    Item,
    Layout,
    Media,
    Modality,
    ModelSource,
    Output,
    Planned,
    Processed,
    Processor,
    Rejected,
    Span,
    Tokenizer,
    Work,
)
from forebay.drive import prompt_ids
from forebay.features import ids_array
from processors.fixed_size.folder import read_settings, read_tokens
from processors.pixels.sides import check_sides

MAX_IMAGES = 64
STAND_IN = 0
"""The token that a picture goes with where the model reads none: a processor's own, it is in no vocabulary's way."""


class FixedSize(Processor):
    """A feature is ``float32 [3, height, width]``, bit-equal to ``pixel_values`` of Hugging Face's image processor."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self.settings = read_settings(model)
        # torch comes with the kernel, so only where a processor is built: in a worker's child, after the fork.
        from processors.fixed_size.kernel import Kernel

        self._kernel = Kernel(self.settings)

    def config(self) -> Mapping[str, Any]:
        return {"settings": self.settings.as_json(), "resize": self.settings.resample.described}

    def plan_item(self, media: Media) -> Planned | None:
        if not isinstance(media, Image):
            return None
        check_sides(media.height, media.width, media.param)
        fit = self.settings.fit
        return Planned((3, fit.height, fit.width), DType.FLOAT32, self._tokens())

    def process_item(self, media: Media, work: Work) -> Processed:
        planned = self.plan_item(media)
        if planned is None or not isinstance(media, Image):
            return super().process_item(media, work)
        array = work.empty(planned.shape, planned.dtype)
        self._kernel.write(media.pixels, array)
        return Processed(Feature.of(array, planned.dtype), planned.tokens)

    def _tokens(self) -> int:
        return 1


class PictureEmbedding(FixedSize):
    """CLIP and SigLIP: pictures, and words beside them, that become embeddings.

    The model reads no picture among its words. A request's pictures stand before them, one token each.
    """

    def capabilities(self) -> Capabilities:
        return Capabilities(modalities={Modality.IMAGE: MAX_IMAGES}, needs_prompt_tokens=False)

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        words = self._words(work, tokenizer)
        if not work.media and not words:
            raise Rejected("empty_prompt", "the request has neither a picture nor a word", param="image_data")
        items = []
        for number, media in enumerate(work.media):
            made = self.process_item(media, work)
            items.append(Item(media.modality, made.feature, (Span(number, number),), made.tokens))
        return Output(ids_array([STAND_IN] * len(items) + words), tuple(items))

    def _words(self, work: Work, tokenizer: Tokenizer | None) -> list[int]:
        if work.prompt.ids is None and (not work.prompt.text or tokenizer is None):
            return []
        words: list[int] = prompt_ids(work.prompt, tokenizer).tolist()
        return words


class Llava(FixedSize):
    """LLaVA-1.5 and its like: as many tokens a picture as its tower has patches."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        self._read = read_tokens(model, self.settings.fit)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: MAX_IMAGES},
            placeholders={Modality.IMAGE: self._read.placeholder},
            vocabulary=self._read.vocabulary,
            context_tokens=self._read.context,
            cacheable=True,
        )

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(self._read.placeholder, processed.tokens)

    def _tokens(self) -> int:
        return self._read.count
