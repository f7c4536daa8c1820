"""How a folder of the family brings pictures to its one size, and how many tokens one stands for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from forebay import ConfigurationError, ModelSource
from processors.pixels.modes import Filter, Resample
from processors.pixels.settings import CLIP_MEAN, CLIP_STD, HALF, PROCESSOR, ImageKeys, Normalisation, image_keys

CONFIG = "config.json"
"""Before the middle of a thinner picture is cut out, it would be enlarged past what anybody has memory for."""
_BICUBIC = 3
_CLIP: dict[str, Any] = {
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "resample": _BICUBIC,
    "image_mean": list(CLIP_MEAN),
    "image_std": list(CLIP_STD),
}
_SIGLIP: dict[str, Any] = {
    "size": {"height": 224, "width": 224},
    "do_center_crop": False,
    "resample": _BICUBIC,
    "image_mean": list(HALF),
    "image_std": list(HALF),
}
CLASSES = {"CLIPImageProcessor": _CLIP, "LlavaImageProcessor": _CLIP, "SiglipImageProcessor": _SIGLIP}


@dataclass(frozen=True, slots=True)
class Fit:
    """How a picture becomes ``height`` x ``width``.

    Attributes:
        height: of every picture, in pixels.
        width: likewise.
        shortest_edge: what the shorter side becomes before the middle is cut out; ``None`` where both sides are
            brought to their size at once.
    """

    height: int
    width: int
    shortest_edge: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All that changes a feature."""

    fit: Fit
    normalisation: Normalisation
    kernel: Filter
    resample: Resample

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "kernel": self.kernel.value}


@dataclass(frozen=True, slots=True)
class Tokens:
    """How LLaVA reads a picture: ``placeholder`` is the token that stands for it, and is repeated ``count`` times."""

    placeholder: int
    count: int
    vocabulary: int | None = None
    context: int | None = None


def read_settings(model: ModelSource) -> Settings:
    """Read a folder's image settings.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    keys = image_keys(model, CLASSES)
    keys.check_names({"size", "crop_size", "do_center_crop"}, refused={"do_pad"})
    return Settings(_fit(keys), keys.normalisation, keys.kernel, keys.resample)


def _fit(keys: ImageKeys) -> Fit:
    sides, crop = keys.sides("size"), keys.sides("crop_size")
    value = keys.get("size", (int, dict))
    edge = value.get("shortest_edge") if isinstance(value, dict) else None
    if not keys.get("do_center_crop", bool):
        if sides is None:
            raise keys.refuse("size", value)  # without a crop, each picture would have a size of its own
        return Fit(*sides)
    if crop is None:
        raise keys.refuse("crop_size", keys.get("crop_size", (int, dict)))
    if isinstance(value, int):
        return Fit(*crop, shortest_edge=value)  # older folders: one number is the shorter side's
    if type(edge) is int and edge >= max(crop) and set(value) == {"shortest_edge"}:
        return Fit(*crop, shortest_edge=edge)
    if sides == crop:
        return Fit(*crop)
    raise keys.refuse("size", value)


def read_tokens(model: ModelSource, fit: Fit) -> Tokens:
    """Read what LLaVA's configuration says of a picture's tokens.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    config = model.json(CONFIG)
    placeholder: int | None = config.get("image_token_id", int, default=None)
    if placeholder is None:
        placeholder = config.get("image_token_index", int)
    told: dict[str, Any] = {}
    if model.folder is not None and (model.folder / PROCESSOR).is_file():
        told = model.json(PROCESSOR).data
    patch = told.get("patch_size") or config.get("vision_config.patch_size", int)
    strategy = told.get("vision_feature_select_strategy")
    strategy = strategy or config.get("vision_feature_select_strategy", str, default="default")
    if strategy not in ("default", "full"):
        raise ConfigurationError(f"{config.path}: key 'vision_feature_select_strategy' has the value {strategy!r}")
    tower = config.get("vision_config.model_type", str, default="clip_vision_model")
    extra = told.get("num_additional_image_tokens")
    extra = int(tower == "clip_vision_model") if extra is None else extra
    count = (fit.height // patch) * (fit.width // patch) + extra - (strategy == "default")
    vocabulary = config.get("text_config.vocab_size", int, default=None)
    context = config.get("text_config.max_position_embeddings", int, default=None)
    return Tokens(placeholder, count, vocabulary, context)
