"""Video settings of a Hugging Face folder, where it has any of their own."""

from __future__ import annotations

from typing import Any

from forebay import ModelSource
from processors.qwen_vl.keys import Keys, geometry_of, normalisation_of, positive
from processors.qwen_vl.sampling import Sampling
from processors.qwen_vl.settings import VideoSettings

FILE = "video_preprocessor_config.json"
PROCESSOR = "processor_config.json"
NESTED = "video_processor"

_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "cap_pixels_per_frame": (False,),
    "video_processor_type": ("Qwen2VLVideoProcessor", "Qwen3VLVideoProcessor"),
}
_HONOURED = {"fps", "num_frames", "min_frames", "max_frames"}
# Frames are always chosen, and what they are is always told; the last two belong to what is refused above.
_INERT = {"do_sample_frames", "return_metadata", "video_metadata", "max_video_tokens", "max_duration"}
_INERT |= {"max_image_size", "image_processor_type", "size_divisor", "pad_size"}


def video_keys(model: ModelSource) -> Keys | None:
    """Where they stand: nested in the processor's file, or in one of their own; ``None`` where nowhere."""
    if model.folder is None:
        return None
    if (model.folder / PROCESSOR).is_file():
        file = model.json(PROCESSOR)
        if NESTED in file.names:
            return Keys(file, f"{NESTED}.")
    return Keys(model.json(FILE)) if (model.folder / FILE).is_file() else None


def video_settings(keys: Keys) -> VideoSettings:
    """Read them.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    keys.check_names(_SUPPORTED, _HONOURED | _INERT)
    return VideoSettings(geometry_of(keys), normalisation_of(keys), _sampling(keys))


def _sampling(keys: Keys) -> Sampling:
    usual = Sampling()
    fps: float | None = keys.get("fps", (int, float), default=None)
    if fps is not None and fps <= 0:
        raise keys.refuse("fps", fps)
    return Sampling(
        fps=usual.fps if fps is None else float(fps),
        num_frames=_optional(keys, "num_frames"),
        min_frames=_optional(keys, "min_frames") or usual.min_frames,
        max_frames=_optional(keys, "max_frames") or usual.max_frames,
    )


def _optional(keys: Keys, name: str) -> int | None:
    return None if keys.get(name, int, default=None) is None else positive(keys, name)
