"""The two ways in which a picture is resized and normalised; each is one of Hugging Face's backends."""

from __future__ import annotations

from enum import Enum, StrEnum
from importlib.metadata import version


class Resample(StrEnum):
    """Whose arithmetic: the default is what models are served with; ``pil`` is what many were trained on.

    They differ by at most a few grey levels in few pixels, and in the last bit of a normalised value.
    """

    TORCHVISION = "torchvision"
    PIL = "pil"

    @property
    def described(self) -> str:
        """For a fingerprint: what computes it, in which release. Pillow 13 resizes otherwise than Pillow 12."""
        if self is Resample.PIL:
            return f"pillow {version('pillow')}, uint8, antialiased"
        torch = version("torch").partition("+")[0]  # a release resizes alike in all its builds
        return f"torch {torch}, uint8, antialiased"


class Filter(Enum):
    """The interpolation, under torch's name."""

    BICUBIC = "bicubic"
    BILINEAR = "bilinear"


PIL_SUFFIX = "Pil"
"""At the end of the class that a folder's settings name, it asks for Pillow's arithmetic."""


def resample_of(class_name: str) -> tuple[str, Resample]:
    """The class without its backend, and the backend: ``CLIPImageProcessor``, ``…Fast`` and ``…Pil`` are one class."""
    if class_name.endswith(PIL_SUFFIX):
        return class_name.removesuffix(PIL_SUFFIX), Resample.PIL
    return class_name.removesuffix("Fast"), Resample.TORCHVISION
