"""How a folder of either family cuts a picture, and the tokens that it tells it with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from forebay import ConfigurationError, ModelSource
from forebay.model import JsonFile
from processors.pixels.modes import Filter, Resample
from processors.pixels.settings import CLIP_MEAN, CLIP_STD, PROCESSOR, Normalisation, image_keys

CONFIG, TOKENIZER, TOKENIZER_CONFIG = "config.json", "tokenizer.json", "tokenizer_config.json"
_BICUBIC = 3
_CLIP: dict[str, Any] = {"resample": _BICUBIC, "image_mean": list(CLIP_MEAN), "image_std": list(CLIP_STD)}
_GOT: dict[str, Any] = {
    **_CLIP,
    "size": {"height": 384, "width": 384},
    "crop_to_patches": False,
    "min_patches": 1,
    "max_patches": 12,
}
_NEXT: dict[str, Any] = {
    **_CLIP,
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]],
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All that changes a feature.

    Attributes:
        tile: height and width of each, in pixels.
        fewest: tiles of a picture, where their number follows from its shape.
        most: likewise.
        pinpoints: the sizes of all tiles together that may be chosen, where they are given.
    """

    tile: tuple[int, int]
    normalisation: Normalisation
    kernel: Filter
    resample: Resample
    fewest: int = 1
    most: int = 1
    pinpoints: tuple[tuple[int, int], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "kernel": self.kernel.value}


@dataclass(frozen=True, slots=True)
class InternVLTokens:
    """``context`` stands for a picture and is repeated ``each`` times a tile, between ``start`` and ``end``."""

    context: int
    start: int
    end: int
    each: int


@dataclass(frozen=True, slots=True)
class NextTokens:
    """``placeholder`` is repeated; ``side`` are a tile's patches along a side, ``base`` the tokens of the whole."""

    placeholder: int
    side: int
    base: int


def internvl_settings(model: ModelSource) -> Settings:
    """Read InternVL's image settings.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    keys = image_keys(model, {"GotOcr2ImageProcessor": _GOT})
    keys.check_names({"size", "crop_to_patches", "min_patches", "max_patches"}, refused={"do_center_crop", "do_pad"})
    tile = keys.sides("size")
    if tile is None:
        raise keys.refuse("size", keys.get("size", (int, dict)))
    fewest, most = keys.get("min_patches", int), keys.get("max_patches", int)
    if not keys.get("crop_to_patches", bool):
        fewest = most = 1
    if not 1 <= fewest <= most:
        raise keys.refuse("max_patches", f"{most}, with min_patches {fewest}")
    return Settings(tile, keys.normalisation, keys.kernel, keys.resample, fewest, most)


def next_settings(model: ModelSource) -> Settings:
    """Read LLaVA-NeXT's image settings.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    keys = image_keys(model, {"LlavaNextImageProcessor": _NEXT})
    keys.check_names({"size", "crop_size", "image_grid_pinpoints", "do_center_crop", "do_pad"})
    crop, size = keys.sides("crop_size"), keys.get("size", (int, dict))
    edge = size.get("shortest_edge") if isinstance(size, dict) else size
    if crop is None or crop[0] != crop[1] or (edge != crop[0] and keys.sides("size") != crop):
        raise keys.refuse("size", size)  # a tile would be resized once more, and cut
    pinpoints = tuple(tuple(one) for one in keys.get("image_grid_pinpoints", list))
    if not pinpoints or any(len(one) != 2 or any(side % crop[0] or side < 1 for side in one) for one in pinpoints):
        raise keys.refuse("image_grid_pinpoints", [list(one) for one in pinpoints])
    return Settings(crop, keys.normalisation, keys.kernel, keys.resample, pinpoints=pinpoints)


def internvl_tokens(model: ModelSource) -> InternVLTokens:
    """Read InternVL's tokens: their names are the tokenizer's, their number the processor's.

    Raises:
        ConfigurationError: naming the file and the key that is missing.
    """
    names, tokenizer = model.json(TOKENIZER_CONFIG), model.json(TOKENIZER)
    ids = {token["content"]: token["id"] for token in tokenizer.get("added_tokens", list)}

    def found(key: str, usual: str) -> int:
        name = names.get(key, str, default=None) or names.get(f"extra_special_tokens.{key}", str, default=usual)
        if name not in ids:
            raise ConfigurationError(f"{tokenizer.path}: token {name!r} is missing")
        return int(ids[name])

    return InternVLTokens(
        context=found("context_image_token", "<IMG_CONTEXT>"),
        start=found("start_image_token", "<img>"),
        end=found("end_image_token", "</img>"),
        each=_processor(model).get("image_seq_length", int, default=256),
    )


def next_tokens(model: ModelSource, tile: tuple[int, int]) -> NextTokens:
    """Read LLaVA-NeXT's tokens.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    config, told = model.json(CONFIG), _processor(model)
    placeholder: int | None = config.get("image_token_id", int, default=None)
    if placeholder is None:
        placeholder = config.get("image_token_index", int)
    patch = told.get("patch_size", int, default=None) or config.get("vision_config.patch_size", int)
    strategy = told.get("vision_feature_select_strategy", str, default=None)
    strategy = strategy or config.get("vision_feature_select_strategy", str, default="default")
    if strategy not in ("default", "full"):
        raise ConfigurationError(f"{config.path}: key 'vision_feature_select_strategy' has the value {strategy!r}")
    extra = told.get("num_additional_image_tokens", int, default=1)
    side = tile[0] // patch
    return NextTokens(placeholder, side, side * side + extra - (strategy == "default"))


def context_of(model: ModelSource) -> int | None:
    """The longest prompt, where the folder has the language model's settings."""
    if model.folder is None or not (model.folder / CONFIG).is_file():
        return None
    found: int | None = model.json(CONFIG).get("text_config.max_position_embeddings", int, default=None)
    return found


def _processor(model: ModelSource) -> JsonFile:
    """The processor's own settings; older folders have none."""
    if model.folder is not None and (model.folder / PROCESSOR).is_file():
        return model.json(PROCESSOR)
    return JsonFile(model.file(CONFIG), {})
