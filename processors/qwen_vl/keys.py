"""The keys of a Hugging Face preprocessor file, read one by one: honoured, of the one supported value, or refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from forebay import ConfigurationError
from forebay.model import JsonFile
from processors.qwen_vl.geometry import Geometry
from processors.qwen_vl.settings import Normalisation, Triple

_BICUBIC = 3
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "do_center_crop": (False,),
    "do_convert_rgb": (True,),
    "do_normalize": (True,),
    "do_pad": (False,),
    "do_rescale": (True,),
    "do_resize": (True,),
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
        return sorted(self.file.get(self.prefix.rstrip("."), dict) if self.prefix else self.file.data)

    def check_names(self, supported: Mapping[str, tuple[Any, ...]], inert: Collection[str] = ()) -> None:
        """Refuse a key that is neither honoured nor known, or has another value than the one that is done.

        Args:
            supported: further keys, each with the values that it may have.
            inert: further keys that change nothing.

        Raises:
            ConfigurationError: naming the file, the key and its value.
        """
        supported = {**_SUPPORTED, **supported}
        for name in self.names():
            value = self.get(name, object, default=None)
            if value is None or name.startswith("_") or name in _HONOURED or name in _INERT or name in inert:
                continue
            if name not in supported or value not in supported[name]:
                raise self.refuse(name, value)


def geometry_of(keys: Keys) -> Geometry:
    """How pictures are cut, and the limits of their size."""
    smallest, largest = _pixels(keys, "min_pixels", "shortest_edge"), _pixels(keys, "max_pixels", "longest_edge")
    if smallest > largest:
        raise keys.refuse("max_pixels", f"{largest}, below min_pixels {smallest}")
    return Geometry(
        patch=positive(keys, "patch_size"),
        merge=positive(keys, "merge_size"),
        temporal=positive(keys, "temporal_patch_size"),
        min_pixels=smallest,
        max_pixels=largest,
    )


def _pixels(keys: Keys, name: str, edge: str) -> int:
    """A limit in either spelling; the plain one wins, as it does in the reference."""
    if keys.get(name, int, default=None) is not None:
        return positive(keys, name)
    return positive(keys, f"size.{edge}")


def positive(keys: Keys, name: str) -> int:
    """A whole number, at least 1."""
    value: int = keys.get(name, int)
    if value < 1:
        raise keys.refuse(name, value)
    return value


def normalisation_of(keys: Keys) -> Normalisation:
    """Mean, deviation and scale."""
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
