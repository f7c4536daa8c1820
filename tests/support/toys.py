"""A processor small enough to compute by hand, and what a driver needs to run it."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from forebay import (
    Capabilities,
    DType,
    Feature,
    Layout,
    Modality,
    ModelSource,
    Planned,
    Positions,
    Processed,
    Processor,
    Rejected,
)
from forebay.plugins import LoadedProcessor

IMAGE_TOKEN, AUDIO_TOKEN, VIDEO_TOKEN, VOCABULARY = 7, 8, 9, 1000


class ToyExtensions(BaseModel):
    """The toy owns one key, and refuses every other by name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    multimodal_gain: int = 1


class Toy(Processor):
    """One token and one feature row for each row of an image: the row's sums by colour, times the gain."""

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: 4, Modality.AUDIO: 1},
            placeholders={Modality.IMAGE: IMAGE_TOKEN, Modality.AUDIO: AUDIO_TOKEN},
            extensions=ToyExtensions,
            rows_per_token=1,
            vocabulary=VOCABULARY,
            cacheable=True,
        )

    def feature_bytes(self, media: Any) -> int:
        return 12 * self._rows(media)

    def process_item(self, media: Any, work: Any) -> Processed:
        rows = self._rows(media)
        array = work.empty((rows, 3))
        gain = work.extensions.multimodal_gain
        array[:] = media.pixels.sum(axis=1) * gain if media.modality is Modality.IMAGE else media.samples[:rows, None]
        return Processed(Feature.of(array, DType.FLOAT32), rows, {"rows": rows})

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(IMAGE_TOKEN if modality is Modality.IMAGE else AUDIO_TOKEN, processed.tokens)

    def positions(self, expansion: Any, items: Any) -> Positions:
        line = np.arange(len(expansion.input_ids), dtype=np.int64)
        return Positions(np.stack([line] * 3), 0)

    @staticmethod
    def _rows(media: Any) -> int:
        return media.height if media.modality is Modality.IMAGE else 2


class CinemaExtensions(BaseModel):
    """How many frames are wanted; and a field that no item depends on."""

    model_config = ConfigDict(extra="forbid")

    multimodal_frames: int = 2
    multimodal_note: str = ""


class Cinema(Toy):
    """Besides what the toy takes, a video: a row for each of its first frames, with the frame's mean colour."""

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: 4, Modality.VIDEO: 2},
            placeholders={Modality.IMAGE: IMAGE_TOKEN, Modality.VIDEO: VIDEO_TOKEN},
            extensions=CinemaExtensions,
            rows_per_token=1,
            vocabulary=VOCABULARY,
            cacheable=True,
            item_fields=("multimodal_frames",),
        )

    def sample_frames(self, clip: Any, extensions: Any) -> range:
        if extensions.multimodal_frames > clip.frames:
            message = f"{extensions.multimodal_frames} frames of a video with {clip.frames}"
            raise Rejected("unsuitable_video", message)
        return range(extensions.multimodal_frames)

    def plan_item(self, media: Any) -> Planned:
        rows = self._rows(media)
        return Planned((rows, 3), DType.FLOAT32, rows, {"frames": list(media.indices)})

    def process_item(self, media: Any, work: Any) -> Processed:
        array = work.empty((len(media.frames), 3))
        array[:] = media.frames.mean(axis=(1, 2))
        return Processed(Feature.of(array, DType.FLOAT32), len(array), {"frames": list(media.indices)})

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(VIDEO_TOKEN, processed.tokens)

    @staticmethod
    def _rows(media: Any) -> int:
        return len(media.frames)


class Words:
    """A tokenizer for hand-sized prompts: one id a word, written as numbers."""

    size = VOCABULARY

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Any) -> str:
        return " ".join(map(str, ids))


def loaded(processor: Processor | None = None, name: str = "toy") -> LoadedProcessor:
    """A processor as a worker's child holds it."""
    processor = processor or Toy(ModelSource(name))
    return LoadedProcessor(name, processor, processor.capabilities(), "0123456789abcdef", Words())
