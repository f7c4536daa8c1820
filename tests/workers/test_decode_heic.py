"""HEIC with its extra and without it: upright once, within the limits, refused by name."""

import io
import sys

import numpy as np
import pytest
from PIL import Image as Pillow
from pillow_heif import from_pillow

from forebay import Rejected
from tests.support.media import coffee
from workers.decode import DECODERS_VERSION, decode_image, image
from workers.decode.header import image_size
from workers.decode.heic import is_heic

PARAM = "image_data[3]"


def heic(pixels: np.ndarray, orientation: int = 1, **options: object) -> bytes:
    """A lossless file that is shown as these pixels, and stored turned back from a way that EXIF names too."""
    picture, exif, file = Pillow.fromarray(pixels), Pillow.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    picture.info["exif"] = exif.tobytes()
    from_pillow(picture).save(file, quality=-1, chroma=444, matrix_coefficients=0, **options)
    return file.getvalue()


def refused(data: bytes, read=decode_image) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(data, PARAM)
    assert caught.value.param == PARAM
    return caught.value


def test_a_heic_has_the_pixels_that_were_put_in():
    """Without loss, so to the byte."""
    pixels = np.asarray(Pillow.open(coffee()).convert("RGB"))[:64, :96]

    assert np.array_equal(decode_image(heic(pixels), PARAM), pixels)


def turned_by(data: bytes, quarters: int) -> bytes:
    """The same stored pixels, which the container turns by so many quarters, counterclockwise."""
    at = data.index(b"irot") + 4
    return data[:at] + bytes([quarters]) + data[at + 1 :]


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_heic_is_turned_once(quarters):
    """By its container; what EXIF says besides counts no more. A plan knows the same size."""
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:16, :32] = (255, 0, 0)
    data = heic(pixels, orientation=6)
    stored = decode_image(turned_by(data, 0), PARAM)

    shown = decode_image(turned_by(data, quarters), PARAM)

    assert int((stored[..., 0] == 255).sum()) == 16 * 32
    assert np.array_equal(shown, np.rot90(stored, quarters))
    assert image_size(turned_by(data, quarters), PARAM) == shown.shape[:2]


@pytest.mark.parametrize("orientation", [2, 4])
def test_a_heic_is_mirrored_once(orientation):
    """Likewise."""
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:16, :32] = (255, 0, 0)
    data = heic(pixels, orientation)

    assert b"imir" in data
    assert np.array_equal(decode_image(data, PARAM), pixels)


def test_transparency_lies_on_white():
    """As of every picture."""
    pixels = np.full((64, 64, 4), (255, 0, 0, 0), np.uint8)

    assert decode_image(heic(pixels), PARAM)[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("read", [decode_image, image_size])
def test_without_the_extra_it_is_refused_by_its_name(monkeypatch, read):
    """Whoever runs the deployment can read what is missing; nothing else needs it."""
    data = heic(np.zeros((64, 64, 3), np.uint8))
    monkeypatch.setitem(sys.modules, "pillow_heif.options", None)

    error = refused(data, read)

    assert error.code == "unsupported_image"
    assert error.message == f"{PARAM}: HEIC is read only by a deployment with the extra: pip install 'forebay[heic]'"


def test_its_size_is_checked_before_it_is_decoded(monkeypatch):
    """With both numbers, from the header."""
    data = heic(np.zeros((64, 96, 3), np.uint8))
    monkeypatch.setattr(image, "MAX_PIXELS", 6143)
    monkeypatch.setattr(image, "_rgb", None)

    error = refused(data)

    assert (error.code, error.status) == ("image_too_large", 413)
    assert error.message == f"{PARAM} has 6144 pixels; the limit is 6143"


@pytest.mark.parametrize("kept", [0.5, 0.98])
def test_a_heic_that_is_cut_off_is_truncated(kept):
    """In the words that other pictures have."""
    pixels = np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8)
    data = heic(pixels)

    error = refused(data[: int(len(data) * kept)])

    assert (error.code, error.message) == ("truncated_image", f"{PARAM}: the image is truncated")


def test_an_avif_is_none():
    """They share containers, and a general brand; AVIF needs no extra."""
    file = io.BytesIO()
    Pillow.new("RGB", (8, 8), (200, 0, 0)).save(file, "AVIF")
    general = file.getvalue()[:8] + b"mif1" + file.getvalue()[12:]

    assert not is_heic(file.getvalue())
    assert not is_heic(general)
    assert decode_image(file.getvalue(), PARAM).shape == (8, 8, 3)


def test_its_decoder_is_part_of_what_pixels_depend_on():
    """A cache knows an item by it."""
    assert " pillow-heif 1." in DECODERS_VERSION
