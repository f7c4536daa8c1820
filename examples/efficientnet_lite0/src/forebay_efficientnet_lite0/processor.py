"""The CPU side: pictures in, features out. It takes over the whole flow, because the model reads no text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from forebay import (
    Capabilities,
    DType,
    Feature,
    Image,
    Item,
    Media,
    Modality,
    ModelSource,
    Output,
    Planned,
    Processor,
    Rejected,
    Span,
    Tokenizer,
    Work,
)

MOST_IMAGES = 8
PLACEHOLDER = 0  # the model has no vocabulary; every token stands for one image, so any id serves


class EfficientNetLite0Processor(Processor):
    """Makes one ``float32 [3, 224, 224]`` feature and one token of each image."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        # torch is loaded with the first processor, not with this module: whoever only looks must not pay for it.
        from forebay_efficientnet_lite0 import picture

        self._picture = picture

    def capabilities(self) -> Capabilities:
        return Capabilities(modalities={Modality.IMAGE: MOST_IMAGES}, needs_prompt_tokens=False)

    def config(self) -> Mapping[str, Any]:
        return {"side": self._picture.SIDE, "mean": self._picture.MEAN, "deviation": self._picture.DEVIATION}

    def plan_item(self, media: Media) -> Planned | None:
        return Planned((3, self._picture.SIDE, self._picture.SIDE), DType.FLOAT32, tokens=1)

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        if not work.media:
            raise Rejected(
                "missing_image", f"the request has 0 images; this model takes 1 to {MOST_IMAGES}", param="image_data"
            )
        items = tuple(self._item(number, media, work) for number, media in enumerate(work.media))
        return Output(np.full(len(items), PLACEHOLDER, dtype=np.int64), items)

    def _item(self, number: int, media: Media, work: Work) -> Item:
        assert isinstance(media, Image)  # the flow hands over no modality that we do not declare
        array = work.empty([3, self._picture.SIDE, self._picture.SIDE])
        self._picture.write_picture(media.pixels, array)
        return Item(Modality.IMAGE, Feature.of(array, DType.FLOAT32), (Span(number, number),), tokens=1)
