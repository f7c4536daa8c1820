"""Settings from a Hugging Face folder: a key is honoured, has the one supported value, or is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forebay import ConfigurationError, ModelSource
from forebay.model import JsonFile
from processors.qwen_vl.geometry import Geometry
from processors.qwen_vl.settings import Normalisation, Settings, SpecialTokens, Triple

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"  # newer folders nest the image settings in it, and then it comes first
NESTED = "image_processor"

_BICUBIC = 3
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "do_center_crop": (False,),
    "do_convert_rgb": (True,),
    "do_normalize": (True,),
    "do_pad": (False,),
    "do_rescale": (True,),
    "do_resize": (True,),
    "image_processor_type": (
        "Qwen2VLImageProcessor",
        "Qwen2VLImageProcessorFast",
        "Qwen2_5_VLImageProcessor",  # what the first Qwen2.5-VL folders call the same thing
    ),
    "resample": (_BICUBIC, "bicubic"),
}
_HONOURED = {
    "image_mean",
    "image_std",
    "max_pixels",
    "merge_size",
    "min_pixels",
    "patch_size",
    "rescale_factor",
    "size",
    "temporal_patch_size",
}
# How a picture is handed over or a result handed back, which Forebay decides itself; and notes.
_INERT = {
    "auto_map",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "input_data_format",
    "processor_class",
    "return_tensors",
}


@dataclass(frozen=True, slots=True)
class Keys:
    """The image settings of a folder, wherever they stand."""

    file: JsonFile
    prefix: str = ""

    def get(self, key: str, kind: type | tuple[type, ...], **default: Any) -> Any:
        return self.file.get(self.prefix + key, kind, **default)

    def refuse(self, key: str, value: Any) -> ConfigurationError:
        return ConfigurationError(f"{self.file.path}: key {self.prefix + key!r} has the unsupported value {value!r}")

    def names(self) -> list[str]:
        return sorted(self.file.get(NESTED, dict) if self.prefix else self.file.data)


def read_settings(model: ModelSource, model_types: tuple[str, ...]) -> Settings:
    """Read the settings of a folder.

    Args:
        model: where the folder is.
        model_types: the values of ``model_type`` that the asking processor serves.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    config = Keys(model.json(CONFIG))
    model_type = config.get("model_type", str)
    if model_type not in model_types:
        raise config.refuse("model_type", model_type)
    keys = _image_keys(model)
    _check_names(keys)
    geometry = _geometry(keys)
    _check_tower(config, geometry)
    return Settings(geometry, _normalisation(keys), _special(config), _vocabulary(config), _context(config))


def _image_keys(model: ModelSource) -> Keys:
    if model.folder is not None and (model.folder / PROCESSOR).is_file():
        file = model.json(PROCESSOR)
        if NESTED in file.names:
            return Keys(file, f"{NESTED}.")
    return Keys(model.json(PREPROCESSOR))


def _check_names(keys: Keys) -> None:
    for name in keys.names():
        value = keys.get(name, object, default=None)
        if value is None or name.startswith("_") or name in _HONOURED or name in _INERT:
            continue
        if name not in _SUPPORTED or value not in _SUPPORTED[name]:
            raise keys.refuse(name, value)


def _geometry(keys: Keys) -> Geometry:
    smallest, largest = _pixels(keys, "min_pixels", "shortest_edge"), _pixels(keys, "max_pixels", "longest_edge")
    if smallest > largest:
        raise keys.refuse("max_pixels", f"{largest}, below min_pixels {smallest}")
    return Geometry(
        patch=_positive(keys, "patch_size"),
        merge=_positive(keys, "merge_size"),
        temporal=_positive(keys, "temporal_patch_size"),
        min_pixels=smallest,
        max_pixels=largest,
    )


def _pixels(keys: Keys, name: str, edge: str) -> int:
    """A limit in either spelling; the plain one wins, as it does in the reference."""
    if keys.get(name, int, default=None) is not None:
        return _positive(keys, name)
    return _positive(keys, f"size.{edge}")


def _positive(keys: Keys, name: str) -> int:
    value: int = keys.get(name, int)
    if value < 1:
        raise keys.refuse(name, value)
    return value


def _normalisation(keys: Keys) -> Normalisation:
    mean, std = _triple(keys, "image_mean"), _triple(keys, "image_std")
    if min(std) <= 0:
        raise keys.refuse("image_std", list(std))
    rescale: float = keys.get("rescale_factor", (int, float), default=1 / 255)
    if rescale <= 0:
        raise keys.refuse("rescale_factor", rescale)
    return Normalisation(mean, std, float(rescale))


def _triple(keys: Keys, name: str) -> Triple:
    values: list[Any] = keys.get(name, list)
    if len(values) != 3 or not all(type(value) in (int, float) for value in values):
        raise keys.refuse(name, values)
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _check_tower(config: Keys, geometry: Geometry) -> None:
    """The vision tower must cut pictures as the preprocessor does."""
    expected = {
        "vision_config.patch_size": geometry.patch,
        "vision_config.spatial_merge_size": geometry.merge,
        "vision_config.temporal_patch_size": geometry.temporal,
    }
    for name, value in expected.items():
        found = config.get(name, int, default=value)
        if found != value:
            raise config.refuse(name, f"{found}; the image settings say {value}")


def _special(config: Keys) -> SpecialTokens:
    return SpecialTokens(
        image_pad=config.get("image_token_id", int),
        video_pad=config.get("video_token_id", int),
        vision_start=config.get("vision_start_token_id", int),
        vision_end=config.get("vision_end_token_id", int),
    )


def _vocabulary(config: Keys) -> int:
    """Newer folders keep it with the text model, older ones beside everything else."""
    nested: int | None = config.get("text_config.vocab_size", int, default=None)
    return nested if nested is not None else _positive(config, "vocab_size")


def _context(config: Keys) -> int | None:
    """Where the folder has the language model's settings, which newer ones nest."""
    for key in ("max_position_embeddings", "text_config.max_position_embeddings"):
        found: int | None = config.get(key, int, default=None)
        if found:
            return found
    return None
