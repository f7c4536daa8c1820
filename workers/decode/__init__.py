"""Media bytes to media values. Whatever a decoder raises becomes a 400 that names the item."""

from importlib.metadata import PackageNotFoundError, version

from workers.decode.audio import decode_audio
from workers.decode.image import decode_image
from workers.decode.video import decode_video

_RULES = 2  # to be counted up when the same bytes are to become other pixels or samples
_LIBRARIES = ("av", "pillow", "pillow-heif", "simplejpeg", "soundfile", "soxr")


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:  # an extra that is not installed
        return "none"


DECODERS_VERSION = f"{_RULES} " + " ".join(f"{name} {_version(name)}" for name in _LIBRARIES)
"""What decoded media depend on besides their bytes; part of every cache key."""

__all__ = ["DECODERS_VERSION", "decode_audio", "decode_image", "decode_video"]
