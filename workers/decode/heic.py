"""HEIC, the pictures of many telephones: read where the extra is installed, and refused by name where it is not."""

from __future__ import annotations

from importlib import import_module

from forebay.errors import Rejected
from workers.decode.cut import is_cut

FORMAT = "HEIF"
_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"})
_GENERAL = frozenset({b"mif1", b"msf1", b"mif2"})  # of AVIF too; then the brands that follow tell


def is_heic(data: bytes) -> bool:
    """Whether the file says of itself that it is coded with HEVC."""
    if data[4:8] != b"ftyp":
        return False
    end = min(int.from_bytes(data[:4], "big"), 256)
    also = {data[at : at + 4] for at in range(16, end, 4)}
    return data[8:12] in _BRANDS or (data[8:12] in _GENERAL and bool(also & _BRANDS))


def formats_for(data: bytes, formats: tuple[str, ...], param: str) -> tuple[str, ...]:
    """Those that Pillow may take a file for; the reader of HEIC is loaded for one that needs it.

    libheif turns a picture as its container says, and its plug-in takes away what EXIF says of that besides, so that no
    picture is turned twice.

    Raises:
        Rejected: it is HEIC, and the extra is not installed, or the file ends too early.
    """
    if not is_heic(data):
        return formats
    try:
        options = import_module("pillow_heif.options")
        import_module("pillow_heif.HeifImagePlugin")
    except ImportError as error:
        message = f"{param}: HEIC is read only by a deployment with the extra: pip install 'forebay[heic]'"
        raise Rejected("unsupported_image", message, param=param) from error
    setattr(options, "DECODE_THREADS", 1)  # noqa: B010 - a worker has one core; the type of a module knows no such name
    if is_cut(data):  # Pillow would hear of no more than that its reader does not like the file
        raise Rejected("truncated_image", f"{param}: the image is truncated", param=param)
    return (FORMAT,)
