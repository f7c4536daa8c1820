"""Which frames of a clip the family looks at, exactly as Hugging Face's two video processors choose them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, model_validator

from forebay import Clip, Failed, Modality, Rejected
from processors.qwen_vl.geometry import Geometry

_BOUNDS = "min_pixels", "max_pixels"
_IMAGES, _VIDEOS = "multimodal_", "multimodal_video_"
_OF_VIDEOS = tuple(f"{_VIDEOS}{name}" for name in ("fps", "num_frames", "min_frames", "max_frames", *_BOUNDS))
_OF_IMAGES = tuple(f"{_IMAGES}{name}" for name in _BOUNDS)
_SHOWN = 8  # rates of a list that a message quotes


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many frames are wanted: ``num_frames``, where it is set, else ``fps`` a second between two bounds."""

    fps: float = 2.0
    num_frames: int | None = None
    min_frames: int = 4
    max_frames: int = 768


_Rate = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
_RATE, _RATES = TypeAdapter(_Rate), TypeAdapter(tuple[_Rate, ...])


def _rates(value: Any) -> Any:
    """One rate, or one a video; told apart here, so that a mistake is named by its place and not by both readings."""
    if value is None:
        return None
    return _RATES.validate_python(value) if isinstance(value, list | tuple) else _RATE.validate_python(value)


class VideoOptions(BaseModel):
    """What a request may say of its videos and of the sizes of its items; what it leaves out is the model's own.

    ``multimodal_video_fps`` may be a list with one rate for each of its videos, in their order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    multimodal_video_fps: Annotated[float | tuple[float, ...] | None, PlainValidator(_rates)] = None
    multimodal_video_num_frames: int | None = Field(default=None, ge=1)
    multimodal_video_min_frames: int | None = Field(default=None, ge=1)
    multimodal_video_max_frames: int | None = Field(default=None, ge=1)
    multimodal_video_min_pixels: int | None = Field(default=None, ge=1)
    multimodal_video_max_pixels: int | None = Field(default=None, ge=1)
    multimodal_min_pixels: int | None = Field(default=None, ge=1)
    multimodal_max_pixels: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _says_one_of_two(self) -> VideoOptions:
        if self.multimodal_video_fps is not None and self.multimodal_video_num_frames is not None:
            raise ValueError("multimodal_video_fps and multimodal_video_num_frames exclude each other")
        for prefix in (_IMAGES, _VIDEOS):
            smallest, largest = self._bounds(prefix)
            if smallest is not None and largest is not None and smallest > largest:
                raise ValueError(f"{prefix}min_pixels is {smallest}, above {prefix}max_pixels {largest}")
        return self

    def _bounds(self, prefix: str) -> tuple[int | None, int | None]:
        """What the request says of the sizes of its images, or of its videos."""
        smallest, largest = (getattr(self, f"{prefix}{name}") for name in _BOUNDS)
        return smallest, largest

    def of_item(self, modalities: Sequence[Modality], number: int) -> VideoOptions:
        """What of it is about one item: nothing of videos is about an image, and of a list of rates one is.

        Raises:
            Rejected: ``length_mismatch``, a list of another length than there are videos.
        """
        rates, videos = self.multimodal_video_fps, modalities.count(Modality.VIDEO)
        if isinstance(rates, tuple) and len(rates) != videos:
            name = "multimodal_video_fps"
            message = f"{name} has {len(rates)} entries for {videos} videos: [{_shown(rates)}]"
            raise Rejected("length_mismatch", message, param=name)
        if modalities[number] is Modality.IMAGE:
            return self.model_copy(update=dict.fromkeys(_OF_VIDEOS))
        which = modalities[:number].count(Modality.VIDEO)
        rate = rates[which] if isinstance(rates, tuple) else rates
        return self.model_copy(update={**dict.fromkeys(_OF_IMAGES), _OF_VIDEOS[0]: rate})

    def limited(self, geometry: Geometry) -> Geometry:
        """An image's limits: the request's in place of the model's; each alone counts, a largest below both."""
        return self._limited(geometry, _IMAGES)

    def limited_video(self, geometry: Geometry) -> Geometry:
        """A video's, in the same way."""
        return self._limited(geometry, _VIDEOS)

    def _limited(self, geometry: Geometry, prefix: str) -> Geometry:
        """With the bounds of the request.

        Raises:
            Rejected: ``invalid_extensions``, more than the model itself takes; nobody pays for a caller's wish.
        """
        smallest, largest = self._bounds(prefix)
        for name, value in zip(_BOUNDS, (smallest, largest), strict=True):
            if value is not None and value > geometry.max_pixels:
                message = f"{prefix}{name} is {value}; the model takes at most {geometry.max_pixels}"
                raise Rejected("invalid_extensions", message, param=f"{prefix}{name}")
        most = geometry.max_pixels if largest is None else largest
        least = min(geometry.min_pixels, most) if smallest is None else smallest
        return replace(geometry, min_pixels=least, max_pixels=most)

    def over(self, sampling: Sampling) -> Sampling:
        """The model's settings, with what the request says in their place."""
        fps, number = self.multimodal_video_fps, self.multimodal_video_num_frames
        if isinstance(fps, tuple):
            raise Failed("invalid_result", "a list of rates is for several videos; of_item tells which one counts")
        return Sampling(
            fps=sampling.fps if fps is None else fps,
            num_frames=sampling.num_frames if number is None and fps is None else number,
            min_frames=self.multimodal_video_min_frames or sampling.min_frames,
            max_frames=self.multimodal_video_max_frames or sampling.max_frames,
        )


def _shown(rates: Sequence[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates[:_SHOWN]) + (", …" if len(rates) > _SHOWN else "")


def evenly_from_first(clip: Clip, sampling: Sampling, temporal: int) -> list[int]:
    """Qwen2-VL's and Qwen2.5-VL's: equal steps that begin with the first frame, in whole groups of ``temporal``.

    A clip of fewer frames than a group gives its first one.

    Raises:
        Rejected: ``unsuitable_video``, more frames were asked for by number than there are.
    """
    if sampling.num_frames is not None:
        count = max(1, round(sampling.num_frames / temporal) * temporal)
    else:
        most = math.floor(min(sampling.max_frames, clip.frames) / temporal) * temporal
        wanted = clip.frames / clip.fps * sampling.fps
        wanted = min(max(wanted, sampling.min_frames), most, clip.frames)
        count = max(1, math.floor(wanted / temporal) * temporal)
    _check_count(count, clip)
    # Here, because importing this room must not import torch; its own rounding of a step decides between two frames.
    import torch

    steps: list[int] = torch.arange(0, clip.frames, clip.frames / count).int().tolist()
    return steps[:count]  # rounded up, one more would lie behind the end, where the reference fails


def evenly_to_last(clip: Clip, sampling: Sampling) -> list[int]:
    """Qwen3-VL's: equal steps from the first frame to the last. More than there are, it would repeat; we refuse them.

    Raises:
        Rejected: ``unsuitable_video``, more frames were asked for by number than there are.
    """
    count = sampling.num_frames
    if count is None:
        count = int(clip.frames / clip.fps * sampling.fps)
        count = min(max(count, sampling.min_frames), sampling.max_frames, clip.frames)
    _check_count(count, clip)
    indices: list[int] = np.linspace(0, clip.frames - 1, count).round().astype(int).tolist()
    return indices


def _check_count(count: int, clip: Clip) -> None:
    if count > clip.frames:
        raise Rejected("unsuitable_video", f"{count} frames are asked for, of a video that has {clip.frames}")
