"""How large pictures are, from their headers: nothing is decoded; what is cut off behind the header goes unnoticed."""

from __future__ import annotations

from PIL import Image as Pillow

from forebay.errors import Rejected
from workers.decode.image import opened

_ORIENTATION = 0x0112
_LYING = (5, 6, 7, 8)  # values of the EXIF orientation that swap the sides


def image_size(data: bytes, param: str) -> tuple[int, int]:
    """Height and width of the picture that ``decode_image`` would give.

    Raises:
        Rejected: empty, unrecognised, or too large.
    """
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    with opened(data, param) as image:
        # Of a TIFF, Pillow tells the size that it will have once it is upright.
        is_lying = image.format != "TIFF" and _exif(image).get(_ORIENTATION) in _LYING
        return (image.width, image.height) if is_lying else (image.height, image.width)


def _exif(image: Pillow.Image) -> Pillow.Exif:
    """What stands before the pixels. Asked itself, a PNG would decode all of them to look behind them too."""
    if image.format != "PNG":
        return image.getexif()
    exif = Pillow.Exif()
    if "exif" in image.info:
        exif.load(image.info["exif"])
    return exif
