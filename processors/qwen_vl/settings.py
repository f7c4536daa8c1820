"""Every setting of the family, as one frozen value, and what each model has when it is given no folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from forebay import Normalisation as ByteNormalisation
from processors.pixels.modes import Resample
from processors.qwen_vl.geometry import Geometry
from processors.qwen_vl.sampling import Sampling

Triple = tuple[float, float, float]

CLIP_MEAN: Triple = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Triple = (0.26862954, 0.26130258, 0.27577711)
HALF: Triple = (0.5, 0.5, 0.5)

_BESIDE = ("context_tokens", "tokens_per_second")


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Mean and deviation of each channel for values in [0, 1], and the factor that brings a byte there."""

    mean: Triple
    std: Triple
    rescale: float = 1 / 255

    def of_bytes(self, copies: int) -> ByteNormalisation:
        """The same for bytes as they are, in float32 and in the order of the reference's own sum."""
        scale = np.float32(1.0 / self.rescale)

        def scaled(channels: Triple) -> tuple[float, ...]:
            return tuple(float(np.float32(value) * scale) for value in channels)

        return ByteNormalisation(scaled(self.mean), scaled(self.std), copies)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the tokens around and in place of media."""

    image_pad: int = 151655
    video_pad: int = 151656
    vision_start: int = 151652
    vision_end: int = 151653

    def by_text(self) -> dict[str, int]:
        """How a tokenizer spells them."""
        return {
            "<|image_pad|>": self.image_pad,
            "<|video_pad|>": self.video_pad,
            "<|vision_start|>": self.vision_start,
            "<|vision_end|>": self.vision_end,
        }


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """The same for videos, which have limits of their own, and how their frames are chosen."""

    geometry: Geometry
    normalisation: Normalisation
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a model of the family needs to know; ``vocabulary`` is ``None`` where only the tokenizer knows it, and
    ``context_tokens`` where the folder does not say. ``tokens_per_second`` are positions on the axis of time, where a
    model counts it in seconds. ``resample`` is of images; of videos the reference has one arithmetic.
    """

    geometry: Geometry
    normalisation: Normalisation
    video: VideoSettings
    special: SpecialTokens = SpecialTokens()
    vocabulary: int | None = None
    context_tokens: int | None = None
    tokens_per_second: int | None = None
    resample: Resample = Resample.TORCHVISION

    def as_json(self) -> dict[str, Any]:
        """What changes the features: the length of a context does not, nor do positions."""
        return {name: value for name, value in asdict(self).items() if name not in _BESIDE}


def of_videos(geometry: Geometry, normalisation: Normalisation) -> VideoSettings:
    """What Hugging Face's classes have of their own where a folder says nothing of videos."""
    token = geometry.factor**2
    return VideoSettings(replace(geometry, min_pixels=128 * token, max_pixels=768 * token), normalisation)


def _settings(geometry: Geometry, normalisation: Normalisation, **more: Any) -> Settings:
    return Settings(geometry, normalisation, of_videos(geometry, normalisation), **more)


QWEN2 = _settings(
    Geometry(patch=14, merge=2, temporal=2, min_pixels=56 * 56, max_pixels=16384 * 28 * 28),
    Normalisation(CLIP_MEAN, CLIP_STD),
)
QWEN25 = replace(QWEN2, tokens_per_second=2)
QWEN3 = _settings(
    Geometry(patch=16, merge=2, temporal=2, min_pixels=64 * 32 * 32, max_pixels=16384 * 32 * 32),
    Normalisation(HALF, HALF),
)
