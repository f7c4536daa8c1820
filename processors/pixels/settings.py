"""Image settings of a Hugging Face folder: a key is honoured, changes nothing, or is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from forebay import ConfigurationError, ModelSource
from forebay.model import JsonFile
from processors.pixels.modes import Filter, Resample, resample_of

Triple = tuple[float, float, float]
PREPROCESSOR, PROCESSOR, NESTED = "preprocessor_config.json", "processor_config.json", "image_processor"

CLIP_MEAN: Triple = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Triple = (0.26862954, 0.26130258, 0.27577711)
HALF: Triple = (0.5, 0.5, 0.5)

_FILTERS = {2: Filter.BILINEAR, 3: Filter.BICUBIC, "bilinear": Filter.BILINEAR, "bicubic": Filter.BICUBIC}
_DONE = ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")
_HONOURED = {"image_processor_type", "feature_extractor_type", "image_mean", "image_std", "rescale_factor", "resample"}
# How a picture is handed over or a result handed back, which Forebay decides itself; and notes.
_INERT = {"auto_map", "data_format", "default_to_square", "device", "disable_grouping", "input_data_format"}
_INERT |= {
    "processor_class",
    "return_tensors",
    "model_valid_processing_keys",
    "image_seq_length",
    "do_flip_channel_order",
}


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Mean and deviation of each channel for values in [0, 1], and the factor that brings a byte there."""

    mean: Triple
    std: Triple
    rescale: float = 1 / 255


@dataclass(frozen=True, slots=True)
class ImageKeys:
    """The image settings of a folder, wherever they stand, over the defaults of the class that they name."""

    file: JsonFile
    prefix: str
    class_name: str
    resample: Resample
    defaults: Mapping[str, Any]

    def get(self, key: str, kind: Any) -> Any:
        found = self.file.get(self.prefix + key, kind, default=None)
        return self.defaults.get(key) if found is None else found

    def refuse(self, key: str, value: Any) -> ConfigurationError:
        return ConfigurationError(f"{self.file.path}: key {self.prefix + key!r} has the unsupported value {value!r}")

    def check_names(self, honoured: Collection[str], refused: Collection[str] = ()) -> None:
        """Refuse a key that is neither honoured nor known to change nothing.

        Args:
            honoured: keys that the family reads, besides those that all read.
            refused: switches that must be off.

        Raises:
            ConfigurationError: naming the file, the key and its value.
        """
        names = self.file.get(self.prefix.rstrip("."), dict) if self.prefix else self.file.data
        for name in sorted(names):
            value = self.get(name, object)
            if value is None or name.startswith("_") or name in _HONOURED | _INERT or name in honoured:
                continue
            if (name in _DONE and value is True) or (name in refused and value is False):
                continue
            raise self.refuse(name, value)

    @property
    def kernel(self) -> Filter:
        found = self.get("resample", (int, str))
        if found not in _FILTERS:
            raise self.refuse("resample", found)
        return _FILTERS[found]

    @property
    def normalisation(self) -> Normalisation:
        std = self._triple("image_std")
        if min(std) <= 0:
            raise self.refuse("image_std", list(std))
        rescale = self.get("rescale_factor", (int, float)) or 1 / 255
        if rescale < 0:
            raise self.refuse("rescale_factor", rescale)
        return Normalisation(self._triple("image_mean"), std, float(rescale))

    def _triple(self, name: str) -> Triple:
        values = self.get(name, list)
        if len(values) != 3 or not all(type(value) in (int, float) for value in values):
            raise self.refuse(name, values)
        red, green, blue = (float(value) for value in values)
        return red, green, blue

    def sides(self, name: str) -> tuple[int, int] | None:
        """Height and width; one number stands for both. ``None`` where the key has neither."""
        value = self.get(name, (int, dict))
        if isinstance(value, int):
            value = {"height": value, "width": value}
        if value is None or "height" not in value or "width" not in value:
            return None
        sides = value["height"], value["width"]
        if not all(type(side) is int and side > 0 for side in sides):
            raise self.refuse(name, value)
        return sides


def image_keys(model: ModelSource, classes: Mapping[str, Mapping[str, Any]]) -> ImageKeys:
    """The image settings of a folder.

    Args:
        model: where the folder is.
        classes: image processors that are served, each with what it has where a folder says nothing.

    Raises:
        ConfigurationError: there are none, or they are of another class.
    """
    file, prefix = _place(model)
    named = file.get(f"{prefix}image_processor_type", str, default=None)
    named = named or file.get(f"{prefix}feature_extractor_type", str, default="")
    name, resample = resample_of(named.replace("FeatureExtractor", "ImageProcessor"))
    if name not in classes:
        raise ConfigurationError(
            f"{file.path}: key {prefix + 'image_processor_type'!r} has the unsupported value {named!r}; "
            f"served are {', '.join(classes)}"
        )
    return ImageKeys(file, prefix, name, resample, classes[name])


def _place(model: ModelSource) -> tuple[JsonFile, str]:
    """Newer folders nest the settings in the processor's file, and then that comes first."""
    if model.folder is not None and (model.folder / PROCESSOR).is_file():
        file = model.json(PROCESSOR)
        if NESTED in file.names:
            return file, f"{NESTED}."
    return model.json(PREPROCESSOR), ""
