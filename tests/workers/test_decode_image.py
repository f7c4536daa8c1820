"""Image bytes to pixels: each decision of the case book, and nothing but a refusal from a bad file."""

import hashlib
import io
import json
import resource
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from PIL import Image as Pillow

from forebay import Rejected
from workers.decode import decode_image
from workers.decode.identity import hash_of
from workers.decode.image import MAX_PIXELS, _fast_jpeg, check_pixels

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
PARAM = "image_data[1]"


def encoded(image, kind, **options):
    """An image as a file of some kind."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def noise(height=64, width=64, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)
    return Pillow.fromarray(pixels)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, compressed, extra=b""):
    """A PNG made by hand, for headers that no library writes."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", compressed) + chunk(b"IEND", b"")


def refused(data):
    with pytest.raises(Rejected) as caught:
        decode_image(data, PARAM)
    assert caught.value.param == PARAM
    assert caught.value.message.startswith(PARAM)
    assert 400 <= caught.value.status < 500
    return caught.value


def colours(pixels):
    return {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}


# golden files


with (GOLDEN / "golden.json").open() as file:
    RECORDED = {name: one for name, one in json.load(file)["decode"].items() if not name.endswith(".jpg")}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_file_has_the_recorded_pixels(name):
    """PNG of every kind, BMP, GIF and WebP, to the byte; JPEG decoders differ, so it is not among them."""
    recorded = RECORDED[name]

    pixels = decode_image((GOLDEN / "inputs" / name).read_bytes(), PARAM)

    assert pixels.shape == (recorded["h"], recorded["w"], 3)
    assert (pixels.dtype, pixels.flags.c_contiguous) == (np.uint8, True)
    assert hashlib.sha256(pixels.tobytes()).hexdigest() == recorded["decoded_rgb_sha256"]


# C001: orientation


def turned(width=3, height=2):
    """Black but for a red corner at the top left."""
    image = Pillow.new("RGB", (width, height))
    image.putpixel((0, 0), (255, 0, 0))
    return image


def orientation(value):
    exif = Pillow.Exif()
    exif[0x0112] = value
    return exif


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_an_orientation_is_applied_once(kind):
    """Tag 6: a quarter turn to the right, so the red corner moves to the top right."""
    options = {"lossless": True} if kind == "WEBP" else {}

    pixels = decode_image(encoded(turned(), kind, exif=orientation(6), **options), PARAM)

    assert pixels.shape == (3, 2, 3)
    assert pixels[0, 1].tolist() == [255, 0, 0]
    assert int(pixels.astype(int).sum()) == 255


@pytest.mark.parametrize(
    ("value", "corner"),
    [(1, (0, 0)), (2, (0, 29)), (3, (19, 29)), (4, (19, 0)), (5, (0, 0)), (6, (0, 19)), (7, (29, 19)), (8, (29, 0))],
)
def test_each_orientation_of_a_jpeg_brings_the_corner_where_a_viewer_shows_it(value, corner):
    """The fast decoder knows nothing of it, so it must not be taken."""
    image = Pillow.new("RGB", (30, 20))
    image.paste((255, 0, 0), (0, 0, 8, 8))

    pixels = decode_image(encoded(image, "JPEG", quality=95, exif=orientation(value)), PARAM)

    assert pixels.shape[:2] == ((30, 20) if value >= 5 else (20, 30))
    assert pixels[corner][0] > 200


def test_an_orientation_far_behind_the_start_of_a_jpeg_is_found():
    """Other segments may come first, and they may be long."""
    plain, exif = encoded(turned(30, 20), "JPEG"), orientation(6).tobytes()
    filler = (b"\xff\xed" + struct.pack(">H", 65_002) + bytes(65_000)) * 3
    data = plain[:2] + filler + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + plain[2:]

    assert decode_image(data, PARAM).shape == (30, 20, 3)


def test_an_orientation_in_xmp_counts_where_there_is_none_in_exif():
    """As Pillow, and so the reference, reads it."""
    xmp = b'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="6"/>'

    assert decode_image(encoded(turned(30, 20), "JPEG", xmp=xmp), PARAM).shape == (30, 20, 3)


def test_an_orientation_holds_for_sixteen_bits_too():
    """The one path that builds a new image."""
    samples = np.array([[65535, 0, 0], [0, 0, 0]], np.uint16)

    pixels = decode_image(encoded(Pillow.fromarray(samples), "PNG", exif=orientation(6)), PARAM)

    assert pixels.shape == (3, 2, 3)
    assert pixels[0, 1].tolist() == [255, 255, 255]


# C003: sixteen bits

SAMPLES = np.array([[0, 255, 256, 32768, 65535]], np.uint16)
SCALED = [0, 0, 1, 128, 255]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG2000", "PGM"])
def test_sixteen_bit_grey_is_scaled_not_clipped(kind):
    """A scan must not turn white, whichever format it comes in."""
    by_hand = b"P5 5 1 65535\n" + SAMPLES.astype(">u2").tobytes()
    data = by_hand if kind == "PGM" else encoded(Pillow.fromarray(SAMPLES), kind)

    assert decode_image(data, PARAM).tolist() == [[[value] * 3 for value in SCALED]]


def test_sixteen_bit_colour_is_scaled_too():
    """PNG and PPM."""
    samples = np.array([256, 32768, 65535], ">u2").tobytes()

    assert decode_image(png(1, 1, 16, 2, zlib.compress(b"\0" + samples)), PARAM).tolist() == [[[1, 128, 255]]]
    assert decode_image(b"P6 1 1 65535\n" + samples, PARAM).tolist() == [[[1, 128, 255]]]


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_samples_whose_white_nobody_knows_are_refused(dtype):
    """Converting them would clip; better to say so."""
    error = refused(encoded(Pillow.fromarray(SAMPLES.astype(dtype)), "TIFF"))

    assert (error.code, error.message) == (
        "unsupported_image",
        f"{PARAM}: images with 32-bit samples are not supported",
    )


def test_a_float_map_is_refused_in_the_same_words():
    """PFM shares its reader with PGM, whose sixteen bits are fine."""
    assert refused(b"Pf\n2 1\n-1.0\n" + np.zeros(2, "<f4").tobytes()).code == "unsupported_image"


# C004: transparency


@pytest.mark.parametrize(
    ("mode", "colour", "shown"),
    [
        ("RGBA", (0, 0, 0, 0), (255, 255, 255)),
        ("RGBA", (255, 0, 0, 128), (255, 127, 127)),
        ("RGBA", (1, 2, 3, 255), (1, 2, 3)),
        ("LA", (0, 0), (255, 255, 255)),
        ("LA", (0, 128), (127, 127, 127)),
    ],
)
def test_transparency_is_composited_on_white(mode, colour, shown):
    """A black logo on nothing is not a black square."""
    assert colours(decode_image(encoded(Pillow.new(mode, (2, 2), colour), "PNG"), PARAM)) == {shown}


def test_a_transparent_palette_colour_is_white():
    """GIF and PNG name one entry of the palette."""
    image = Pillow.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)

    for kind in ("PNG", "GIF"):
        pixels = decode_image(encoded(image, kind, transparency=1), PARAM)
        assert pixels.tolist() == [[[10, 20, 30], [255, 255, 255]]], kind


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "I;16"])
def test_a_transparent_colour_of_a_png_is_white(mode):
    """tRNS names one grey or colour, at any depth."""
    image = Pillow.new(mode, (2, 1)) if mode != "I;16" else Pillow.fromarray(np.zeros((1, 2), np.uint16))
    image.putpixel((1, 0), {"1": 1, "L": 9, "RGB": (9, 9, 9), "I;16": 2304}[mode])
    transparent = (0, 0, 0) if mode == "RGB" else 0

    pixels = decode_image(encoded(image, "PNG", transparency=transparent), PARAM)

    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[0, 1].tolist() == [255 if mode == "1" else 9] * 3


def wide(samples, key, extra=b""):
    """A PNG of one row with 16 bits a colour, and a transparent one among them."""
    row = struct.pack(f">{3 * len(samples)}H", *(value for sample in samples for value in sample))
    named = chunk(b"tRNS", struct.pack(">3H", *key))
    return png(len(samples), 1, 16, 2, zlib.compress(b"\0" + row), named + extra)


def test_a_transparent_colour_of_sixteen_bits_is_white_and_no_other():
    """Its neighbour, which differs in the lower bits alone, is a colour like any other."""
    near, key = (0x0103, 0x0304, 0x0506), (0x0102, 0x0304, 0x0506)

    pixels = decode_image(wide([key, near, (65535, 0, 256)], key), PARAM)

    assert pixels.tolist() == [[[255, 255, 255], [1, 3, 5], [255, 0, 1]]]


def test_a_transparent_colour_of_sixteen_bits_is_turned_with_its_picture():
    """Both happen, whichever comes first."""
    exif = chunk(b"eXIf", orientation(6).tobytes()[6:])
    key = (1, 2, 3)

    pixels = decode_image(wide([key, (65535, 0, 0)], key, exif), PARAM)

    assert pixels.tolist() == [[[255, 255, 255]], [[255, 0, 0]]]


# C006: CMYK


def test_a_cmyk_jpeg_has_its_colours_the_right_way_round():
    """Print files carry Adobe's marker, and come out inverted where it is not read."""
    pixels = decode_image(encoded(Pillow.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95), PARAM)

    assert pixels.shape == (8, 8, 3)
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 2


# C007: truncated

JPEG = encoded(noise(), "JPEG")


@pytest.mark.parametrize("kept", [len(JPEG) // 2, len(JPEG) - 2, len(JPEG) - 1, 700])
def test_a_truncated_jpeg_is_refused(kept):
    """Wherever it was cut; by the fast decoder and by Pillow alike."""
    error = refused(JPEG[:kept])

    assert (error.code, error.message) == ("truncated_image", f"{PARAM}: the image is truncated")


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "PPM", "WEBP", "AVIF", "JPEG2000", "progressive JPEG"])
def test_a_file_of_any_kind_that_was_cut_in_half_is_refused(kind):
    """Decoding is forced here, so that nothing later finds half an image."""
    options = {"progressive": True} if "progressive" in kind else {}
    data = encoded(noise(), kind.rpartition(" ")[2], **options)

    assert refused(data[: len(data) // 2]).code in ("truncated_image", "damaged_image", "unsupported_image")


# C008: no raster image


@pytest.mark.parametrize(
    "data",
    [
        b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>',
        b"<html>404</html>",
        b"\0\0\0\x18ftypheic\0\0\0\0heicmif1",
        bytes(16),
        b"\xff\xd8",
        b"\xff\xd8\xff",
        b"P",
        b"%PDF-1.7",
        b"\x7fELF",
    ],
)
def test_bytes_that_are_no_image_are_refused(data):
    """The type is taken from the bytes; nobody's word for it counts."""
    error = refused(data)

    assert error.code == "unsupported_image"
    assert error.message == f"{PARAM}: unsupported or unrecognised image format"


def test_no_bytes_are_told_as_such():
    """The caller forgot something else than to convert an image."""
    assert (refused(b"").code, refused(b"").message) == ("empty_media", f"{PARAM} is empty")


@pytest.mark.parametrize("kind", ["ICO", "TGA", "PCX", "EPS", "PDF", "ICNS"])
def test_a_format_that_was_not_chosen_is_refused(kind):
    """Pillow reads dozens; each one is a parser that strangers may feed."""
    assert refused(encoded(noise(), kind)).code == "unsupported_image"


@pytest.mark.parametrize("kind", ["AVIF", "WEBP", "JPEG2000", "TIFF", "PPM", "BMP", "GIF", "PNG", "JPEG"])
def test_the_formats_that_were_chosen_decode(kind):
    """Near enough for the lossy ones, with lossless options where there are any."""
    image = Pillow.new("RGB", (40, 30), (200, 100, 50))

    pixels = decode_image(encoded(image, kind), PARAM)

    assert pixels.shape == (30, 40, 3)
    assert np.abs(pixels.astype(int) - [200, 100, 50]).max() <= 6


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "group4", "zstd"])
def test_a_tiff_decodes_and_a_damaged_one_says_nothing_on_its_own(capfd, compression):
    """However it is packed; libtiff and its codecs print what they think of a file, which is no line of our log."""
    image = noise().convert("1") if compression == "group4" else noise()
    data = bytearray(encoded(image, "TIFF", compression=compression))

    assert decode_image(bytes(data), PARAM).shape == (64, 64, 3)
    refusals = 0
    for at in range(8, len(data) - 200, 97):
        damaged = data.copy()
        damaged[at : at + 40] = bytes(range(40))
        try:
            decode_image(bytes(damaged), PARAM)
        except Rejected:
            refusals += 1

    assert refusals or compression in ("jpeg", "group4", "packbits")  # these make do with what they find
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_many_frames_cost_what_the_first_one_does(kind):
    """Nobody counts them, let alone decodes them: of a bomb of frames one is looked at."""
    first, *others = (Pillow.new("P" if kind == "GIF" else "RGB", (64, 64), number) for number in range(300))
    data = encoded(first, kind, save_all=True, append_images=others)
    seeks = []
    reader = Pillow.registered_extensions()[f".{kind.lower()}"]

    class Counting(Pillow.OPEN[reader][0]):
        def seek(self, frame):
            seeks.append(frame)
            super().seek(frame)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Pillow.OPEN, reader, (Counting, Pillow.OPEN[reader][1]))
        pixels = decode_image(data, PARAM)

    assert pixels.shape == (64, 64, 3)
    assert set(seeks) <= {0}


# C010: decompression bomb


def test_a_bomb_is_refused_from_its_header():
    """400 million pixels in 49 kB: both numbers, and no memory taken."""
    row, packer = bytes(1 + 20_000 // 8), zlib.compressobj(9)
    packed = b"".join([packer.compress(row) for _ in range(20_000)]) + packer.flush()
    bomb = png(20_000, 20_000, 1, 0, packed)
    assert len(bomb) == 48_685
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    error = refused(bomb)

    assert (error.code, error.status) == ("image_too_large", 413)
    assert error.message == f"{PARAM} has 400000000 pixels; the limit is {MAX_PIXELS}"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB; the pixels would be 400 MB


def test_a_jpeg_bomb_is_refused_by_the_fast_path_too():
    """The header says 65,500 by 65,500; nothing is decoded."""
    size = JPEG.index(b"\xff\xc0") + 5
    bomb = JPEG[:size] + struct.pack(">HH", 65_500, 65_500) + JPEG[size + 4 :]
    began = time.monotonic()

    with pytest.raises(Rejected) as caught:
        _fast_jpeg(bomb, PARAM)

    assert time.monotonic() - began < 1
    assert caught.value.message == f"{PARAM} has {65_500**2} pixels; the limit is {MAX_PIXELS}"


def test_the_limit_itself_is_allowed():
    """One pixel more is not."""
    check_pixels(MAX_PIXELS, 1, PARAM)
    with pytest.raises(Rejected, match=f"has {MAX_PIXELS + 1} pixels"):
        check_pixels(MAX_PIXELS + 1, 1, PARAM)


# C012: animations


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_an_animation_gives_its_first_frame(kind):
    """One image, not the last and not a mixture."""
    first, *others = (Pillow.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue"))
    options = {"lossless": True} if kind == "WEBP" else {}

    pixels = decode_image(encoded(first, kind, save_all=True, append_images=others, **options), PARAM)

    assert pixels.shape == (4, 4, 3)
    assert colours(pixels) == {(255, 0, 0)}


# C013: smallest sizes


@pytest.mark.parametrize(("width", "height"), [(1, 1), (200, 1), (1, 200)])
def test_the_axes_are_never_guessed(width, height):
    """One pixel, and one pixel high or wide: height, width, colour, in this order."""
    pixels = decode_image(encoded(Pillow.new("RGB", (width, height), (10, 20, 30)), "PNG"), PARAM)

    assert pixels.shape == (height, width, 3)
    assert colours(pixels) == {(10, 20, 30)}


@pytest.mark.parametrize(("width", "height"), [(0, 1), (1, 0), (0, 0)])
def test_an_image_without_pixels_is_refused(width, height):
    """Before anybody divides by a side."""
    assert refused(png(width, height, 8, 2, zlib.compress(b"\0"))).code in ("unsupported_image", "empty_image")
    with pytest.raises(Rejected, match=f"is {width}x{height} pixels"):
        check_pixels(width, height, PARAM)


# grey, palette, odd modes


@pytest.mark.parametrize(
    ("mode", "kind", "colour", "shown"),
    [
        ("1", "PNG", 1, (255, 255, 255)),
        ("L", "PNG", 9, (9, 9, 9)),
        ("CMYK", "TIFF", (0, 255, 255, 0), (255, 0, 0)),
        ("YCbCr", "TIFF", (128, 128, 128), (128, 128, 128)),
        ("LAB", "TIFF", (255, 128, 128), (255, 255, 255)),
    ],
)
def test_every_mode_comes_out_in_three_colours(mode, kind, colour, shown):
    """Grey, print colours, and what only TIFF knows."""
    pixels = decode_image(encoded(Pillow.new(mode, (2, 2), colour), kind), PARAM)

    assert pixels.shape == (2, 2, 3)
    assert np.abs(pixels.astype(int) - shown).max() <= 1


# what a decoder may raise


@pytest.mark.filterwarnings("ignore")  # Pillow warns of damaged metadata
def test_a_damaged_file_is_refused_and_never_crashes():
    """Bytes changed at random in files of every kind: pixels or a refusal, nothing else."""
    rng = np.random.default_rng(7)
    kinds = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "PPM", "AVIF", "JPEG2000")
    seeds = [encoded(noise(16, 16), kind) for kind in kinds]
    outcomes = set()
    for number in range(900):
        data = bytearray(seeds[number % len(seeds)])
        for _ in range(rng.integers(1, 5)):
            data[rng.integers(0, len(data))] = rng.integers(0, 256)
        try:
            outcomes.add(decode_image(bytes(data), PARAM).shape[2])
        except Rejected as error:
            outcomes.add(error.code)

    assert {3, "damaged_image", "truncated_image", "unsupported_image"} <= outcomes


@pytest.mark.parametrize("trouble", [MemoryError, SoftTimeLimitExceeded])
def test_a_lack_of_memory_or_time_is_not_the_files_fault(monkeypatch, trouble):
    """It is not told as a damaged image; the request fails as ours."""
    data = encoded(noise(), "PNG")

    def fail(*_args, **_kwargs):
        raise trouble

    monkeypatch.setattr("workers.decode.image.Pillow.open", fail)

    with pytest.raises(trouble):
        decode_image(data, PARAM)


# identity


def test_the_identity_is_of_the_encoded_bytes():
    """The first 8 bytes of BLAKE3, big-endian; the same picture encoded otherwise has another."""
    assert hash_of(b"") == 0xAF1349B9F5F9A1A6  # the published digest of no input begins so
    assert hash_of(encoded(turned(), "PNG")) != hash_of(encoded(turned(), "BMP"))
