"""A whole request to a Qwen-VL model as Hugging Face prepares it, and what differs in ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from PIL import Image as Pillow

from forebay import Output, Video
from forebay.testing import image, run_processor
from processors.pixels.modes import Resample
from processors.qwen_vl import Qwen2VL, Qwen3VL, Qwen25VL
from processors.qwen_vl.family import QwenVL
from processors.qwen_vl.tokenizer import packaged_file
from tests.processors.films import as_video, clip

FAMILIES = {"qwen2-vl": Qwen2VL, "qwen2.5-vl": Qwen25VL, "qwen3-vl": Qwen3VL}
STEMS = {"qwen2-vl": "Qwen2VL", "qwen2.5-vl": "Qwen2_5_VL", "qwen3-vl": "Qwen3VL"}
SUFFIX = {Resample.TORCHVISION: "", Resample.PIL: "Pil"}
PICTURE, VIDEO = "<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|video_pad|><|vision_end|>"


@dataclass(frozen=True, slots=True)
class Film:
    """A video that is decoded already: ``uint8 [n, h, w, 3]``, at a rate."""

    frames: np.ndarray
    fps: float

    @property
    def metadata(self) -> dict[str, Any]:
        count, height, width, _ = self.frames.shape
        return {"total_num_frames": count, "fps": self.fps, "height": height, "width": width}

    def sampled(self, processor: QwenVL) -> Video:
        """As our decoder would hand it over."""
        chosen = processor.sample_frames(clip(len(self.frames), self.fps), None)
        return as_video(self.frames, chosen, fps=self.fps)


@dataclass(frozen=True, slots=True)
class Request:
    """Pictures and videos with text around them, in which each has its marker; and limits of the request's own."""

    text: str
    pictures: Sequence[np.ndarray] = ()
    films: Sequence[Film] = ()
    limits: Mapping[str, int] = field(default_factory=dict)


def name_of(processor: QwenVL) -> str:
    """Of the family, also of a class that a test derived."""
    return next(name for name, cls in reversed(FAMILIES.items()) if isinstance(processor, cls))


@cache
def _tokenizer(transformers: Any) -> Any:
    return transformers.AutoTokenizer.from_pretrained(packaged_file().parent)


def image_reference(transformers: Any, processor: QwenVL, limits: Mapping[str, int]) -> Any:
    """Hugging Face's image processor with the settings of ours, and a request's limits in place of the model's."""
    still = processor.settings
    most = limits.get("multimodal_max_pixels", still.geometry.max_pixels)
    least = limits.get("multimodal_min_pixels", min(still.geometry.min_pixels, most))
    return getattr(transformers, f"Qwen2VLImageProcessor{SUFFIX[still.resample]}")(
        patch_size=still.geometry.patch,
        merge_size=still.geometry.merge,
        temporal_patch_size=still.geometry.temporal,
        size={"shortest_edge": least, "longest_edge": most},
        image_mean=list(still.normalisation.mean),
        image_std=list(still.normalisation.std),
    )


def video_reference(transformers: Any, processor: QwenVL, limits: Mapping[str, int] | None = None) -> Any:
    """Hugging Face's video processor, likewise."""
    video, limits = processor.settings.video, limits or {}
    most = limits.get("multimodal_video_max_pixels", video.geometry.max_pixels)
    least = limits.get("multimodal_video_min_pixels", min(video.geometry.min_pixels, most))
    name = "Qwen3VLVideoProcessor" if isinstance(processor, Qwen3VL) else "Qwen2VLVideoProcessor"
    return getattr(transformers, name)(
        patch_size=video.geometry.patch,
        merge_size=video.geometry.merge,
        temporal_patch_size=video.geometry.temporal,
        size={"shortest_edge": least, "longest_edge": most},
        image_mean=list(video.normalisation.mean),
        image_std=list(video.normalisation.std),
        fps=video.sampling.fps,
        do_sample_frames=True,
        cap_pixels_per_frame=False,
    )


def whole_reference(transformers: Any, processor: QwenVL, limits: Mapping[str, int] | None = None) -> Any:
    """Hugging Face's processor of text, images and videos."""
    images = image_reference(transformers, processor, limits or {})
    videos = video_reference(transformers, processor, limits)
    whole = getattr(transformers, f"{STEMS[name_of(processor)]}Processor")
    return whole(images, _tokenizer(transformers), videos)


def prepared(processor: QwenVL, request: Request) -> Output:
    """By ours."""
    media = [image(one) for one in request.pictures] + [one.sampled(processor) for one in request.films]
    return run_processor(processor, media, text=request.text, extensions=dict(request.limits))


def differences(transformers: Any, processor: QwenVL, request: Request, output: Output) -> list[str]:
    """What is not the reference's, to the last bit: ids, features, grids, seconds, positions."""
    expected = whole_reference(transformers, processor, request.limits)(
        text=[request.text],
        images=[Pillow.fromarray(one) for one in request.pictures] or None,
        videos=[one.frames for one in request.films] or None,
        video_metadata=[one.metadata for one in request.films] or None,
        return_tensors="pt",
    )
    found = [] if output.input_ids.tolist() == expected["input_ids"][0].tolist() else ["input_ids"]
    for kind, grid, values in (
        ("image", "image_grid_thw", "pixel_values"),
        ("video", "video_grid_thw", "pixel_values_videos"),
    ):
        items = [item for item in output.items if item.modality == kind]
        if items and b"".join(one.feature.array.tobytes() for one in items) != expected[values].numpy().tobytes():
            found.append(values)
        if items and [one.model_specific[grid] for one in items] != expected[grid].tolist():
            found.append(grid)
    if "second_per_grid_ts" in expected:
        ours = [one.model_specific["second_per_grid_ts"] for one in output.items if one.modality == "video"]
        if not np.allclose(ours, np.asarray(expected["second_per_grid_ts"], np.float64), rtol=1e-6):
            found.append("second_per_grid_ts")
    mrope, delta = _positions(transformers, processor, expected)
    if output.positions is None or not np.array_equal(output.positions.mrope, mrope) or output.positions.delta != delta:
        found.append("positions")
    return found


def _positions(transformers: Any, processor: QwenVL, expected: Mapping[str, Any]) -> tuple[np.ndarray, int]:
    names = {"image_grid_thw", "video_grid_thw", "second_per_grid_ts"} & set(expected)
    mrope, delta = model_class(transformers, processor).get_rope_index(
        model_of(transformers, processor),
        expected["input_ids"],
        expected["mm_token_type_ids"],
        **{name: expected[name] for name in names},
    )
    return mrope[:, 0].numpy(), int(delta.item())


def model_class(transformers: Any, processor: QwenVL) -> Any:
    """The model whose positions are the reference."""
    stem = STEMS[name_of(processor)]
    module = stem.replace("VL", "_vl").replace("__", "_").lower()
    return getattr(getattr(getattr(transformers.models, module), f"modeling_{module}"), f"{stem}Model")


def model_of(transformers: Any, processor: QwenVL) -> Any:
    """As much of it as positions need, with our positions a second."""
    config = getattr(transformers, f"{STEMS[name_of(processor)]}Config")()
    if processor.settings.tokens_per_second is not None:
        config.vision_config.tokens_per_second = processor.settings.tokens_per_second
    place = model_class(transformers, processor).get_vision_position_ids
    return SimpleNamespace(config=config, get_vision_position_ids=lambda *a, **k: place(None, *a, **k))
