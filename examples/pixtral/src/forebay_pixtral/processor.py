"""The CPU side of Pixtral: pictures are resized and normalised, and their tokens chosen, by mistral-common itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import as_file, files
from typing import Any

import cv2
import PIL.Image
from mistral_common.protocol.instruct.chunk import ImageChunk
from mistral_common.tokens.tokenizers.image import ImageEncoder
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from forebay import (
    Capabilities,
    DType,
    Feature,
    Image,
    Layout,
    Media,
    Modality,
    ModelSource,
    Planned,
    Processed,
    Processor,
    Run,
    Tokenizer,
    Work,
    WorkerStart,
)
from forebay_pixtral.tokenizer import TekkenTokenizer

MOST_IMAGES = 8
TOKENIZER_FILE = "tekken_240911.json"  # Pixtral 12B's; it lies in the library's wheel


class PixtralProcessor(Processor):
    """Makes a ``float32 [3, height, width]`` feature of each picture: a token for each 16 by 16 pixels, row by row."""

    def __init__(self, model: ModelSource) -> None:
        super().__init__(model)
        with as_file(files("mistral_common") / "data" / TOKENIZER_FILE) as path:
            instruct = MistralTokenizer.from_file(str(path)).instruct_tokenizer
        assert isinstance(instruct.image_encoder, ImageEncoder)
        assert isinstance(instruct.tokenizer, Tekkenizer)
        self._encoder = instruct.image_encoder
        self._tokens = self._encoder.special_ids
        self._tokenizer = TekkenTokenizer(instruct.tokenizer)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: MOST_IMAGES},
            placeholders={Modality.IMAGE: self._tokens.img},
            vocabulary=self._tokenizer.size,
            cacheable=True,
        )

    def start_worker(self, start: WorkerStart) -> None:
        cv2.setNumThreads(1)  # a child has a core of its own; OpenCV would start a thread for every core

    def config(self) -> Mapping[str, Any]:
        libraries = {name: version(name) for name in ("mistral-common", "opencv-python-headless")}
        return {"tokenizer": TOKENIZER_FILE, **asdict(self._encoder.image_config), **libraries}

    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def plan_item(self, media: Media) -> Planned:
        assert isinstance(media, Image)  # the flow hands over no modality that we do not declare
        config = self._encoder.image_config
        ratio = max(1.0, media.height / config.max_image_size, media.width / config.max_image_size)
        height, width = (-(-max(1, round(side / ratio)) // self._cell) for side in (media.height, media.width))
        shape = (3, height * self._cell, width * self._cell)
        return Planned(shape, DType.FLOAT32, height * width, {"image_sizes": list(shape[1:])})

    def process_item(self, media: Media, work: Work) -> Processed:
        assert isinstance(media, Image)
        encoded = self._encoder(ImageChunk(image=PIL.Image.fromarray(media.pixels)))
        feature = work.empty(encoded.image.shape, DType.FLOAT32)
        feature[...] = encoded.image  # the library returns a view with the channels last in memory
        tokens = encoded.tokens.count(self._tokens.img)
        return Processed(Feature.of(feature, DType.FLOAT32), tokens, {"image_sizes": list(feature.shape[1:])})

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        """Each row ends with a token that carries nothing; the last with another."""
        height, width = (side // self._cell for side in processed.feature.shape[1:])
        row = (Run(self._tokens.img, width), Run(self._tokens.img_break, 1, carries=False))
        return Layout((*(row * height)[:-1], Run(self._tokens.img_end, 1, carries=False)))

    @property
    def _cell(self) -> int:
        """Pixels on each side of what one token stands for."""
        config = self._encoder.image_config
        return config.image_patch_size * config.spatial_merge_size
