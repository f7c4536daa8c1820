"""Image bytes to upright RGB pixels, as Hugging Face's loader gives them, except where it would lose something.

The type is taken from the bytes. JPEG takes a faster decoder with the same pixels; everything that decoder does not
like is judged by Pillow. Decisions: EXIF orientation is applied once, transparency is composited on white, 16-bit
samples are scaled, an animation gives its first frame, a truncated file is refused.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import simplejpeg
from billiard.exceptions import SoftTimeLimitExceeded
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from forebay.errors import Rejected
from workers.decode.heic import formats_for
from workers.decode.quiet import quiet
from workers.decode.wide_key import has_wide_key, unmask

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
MAX_PIXELS = 178_956_970  # where Pillow itself speaks of a decompression bomb
MAX_REQUEST_PIXELS = 1 << 29  # of all its images and sampled frames, 1.6 GB as RGB: they are held at the same time
_SIXTEEN_BIT = ("I;16", "I;16B", "I;16L", "I;16N", "I")  # "I" is how Pillow reads a 16-bit PGM

Pillow.MAX_IMAGE_PIXELS = None  # our own check is a refusal, not a warning


def decode_image(data: bytes, param: str, left: int = MAX_REQUEST_PIXELS) -> Pixels:
    """Decode one image to ``uint8 [height, width, 3]``.

    Args:
        data: the encoded image.
        param: where the caller put it, for messages.
        left: how many pixels its request may still have.

    Raises:
        Rejected: empty, unrecognised, truncated, damaged or too large.
    """
    if not data:
        raise Rejected("empty_media", f"{param} is empty", param=param)
    if data[:2] == b"\xff\xd8":
        pixels = _fast_jpeg(data, param, left)
        if pixels is not None:
            return pixels
    with opened(data, param, left) as image:
        _check_depth(image, param)
        told = image.size
        image.load()
        if image.size != told:  # libheif allows it, and only the header's size has been checked
            raise ValueError(f"{image.size} pixels, where the header says {told}")
        if has_wide_key(data, image):
            unmask(data, image)
        return _rgb(image)


@contextmanager
def opened(data: bytes, param: str, left: int = MAX_REQUEST_PIXELS) -> Iterator[Pillow.Image]:
    """An image whose size has been checked, with nothing of it decoded.

    Raises:
        Rejected: unrecognised, damaged or too large; or whatever is raised while it is open.
    """
    formats = formats_for(data, FORMATS, param)
    with quiet(), decoder_errors(param), Pillow.open(io.BytesIO(data), formats=formats) as image:
        check_pixels(image.width, image.height, param, left)
        yield image


def check_pixels(width: int, height: int, param: str, left: int = MAX_REQUEST_PIXELS) -> None:
    """Refuse a size from the header, before any pixel is allocated."""
    if width < 1 or height < 1:
        raise Rejected("empty_image", f"{param} is {width}x{height} pixels", param=param)
    if width * height > MAX_PIXELS:
        pixels = width * height
        raise Rejected(
            "image_too_large", f"{param} has {pixels} pixels; the limit is {MAX_PIXELS}", param=param, status=413
        )
    if width * height > left:
        message = f"{param} has {width * height} pixels; {left} of the {MAX_REQUEST_PIXELS} of a request are left"
        raise Rejected("image_too_large", message, param=param, status=413)


def _check_depth(image: Pillow.Image, param: str) -> None:
    """Refuse samples whose white nobody knows: converting them would clip a scan to white."""
    if image.mode == "F" or (image.mode == "I" and image.format != "PPM"):
        message = f"{param}: images with 32-bit samples are not supported"
        raise Rejected("unsupported_image", message, param=param)


def _fast_jpeg(data: bytes, param: str, left: int = MAX_REQUEST_PIXELS) -> Pixels | None:
    """The common JPEG; ``None`` leaves the judgement to Pillow."""
    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(data, strict=True)
        if space not in ("YCbCr", "Gray") or _may_be_turned(data):
            return None
        check_pixels(width, height, param, left)
        pixels: Pixels = simplejpeg.decode_jpeg(data, colorspace="RGB", strict=True)
    except ValueError:
        return None
    return pixels


def _may_be_turned(data: bytes) -> bool:
    """Whether a JPEG has anything that could name an orientation: Exif, or XMP in its place."""
    header = _header(data)
    return b"Exif\x00\x00" in header or b"tiff:Orientation" in header


def _header(data: bytes) -> bytes:
    """A JPEG's segments up to its compressed data; all of it when they do not follow one another as they should."""
    at = 2
    while data[at : at + 2] != b"\xff\xda":
        if data[at : at + 1] != b"\xff":
            return data
        is_fill = data[at + 1 : at + 2] == b"\xff"
        at += 1 if is_fill else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return data[:at]


def _rgb(image: Pillow.Image) -> Pixels:
    if image.mode in _SIXTEEN_BIT:
        return _from_sixteen_bit(image)
    upright = ImageOps.exif_transpose(image)
    if upright.has_transparency_data:
        upright = on_white(upright.convert("RGBA"))
    return np.ascontiguousarray(upright.convert("RGB"))


def _from_sixteen_bit(image: Pillow.Image) -> Pixels:
    samples = np.asarray(image)
    scaled = (samples >> 8).astype(np.uint8)
    scaled[samples == image.info.get("transparency", -1)] = 255
    upright = ImageOps.exif_transpose(_with_exif_of(Pillow.fromarray(scaled), image))
    return np.ascontiguousarray(upright.convert("RGB"))


def _with_exif_of(image: Pillow.Image, source: Pillow.Image) -> Pillow.Image:
    orientation = source.getexif().get(0x0112)
    if orientation:
        image.getexif()[0x0112] = orientation
    return image


def on_white(image: Pillow.Image) -> Pillow.Image:
    """A picture with transparency, ``RGBA``, composited on white."""
    white = Pillow.new("RGBA", image.size, (255, 255, 255))
    white.alpha_composite(image)
    return white


@contextmanager
def decoder_errors(param: str) -> Iterator[None]:
    """What a decoder raises, as a refusal of the item.

    Raises:
        Rejected: whatever it was.
    """
    try:
        yield
    except (Rejected, MemoryError, SoftTimeLimitExceeded):  # not the file's fault
        raise
    except UnidentifiedImageError as error:
        message = f"{param}: unsupported or unrecognised image format"
        raise Rejected("unsupported_image", message, param=param) from error
    except Exception as error:  # a codec raises whatever its author chose; the file is to blame all the same
        if "truncated" in str(error):
            raise Rejected("truncated_image", f"{param}: the image is truncated", param=param) from error
        raise Rejected("damaged_image", f"{param}: the image is damaged", param=param) from error
