"""Small whole files of every kind that is read: what mutation begins with."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

import numpy as np
import soundfile
from PIL import Image as Pillow

from handoff.reel import Reel
from tests.support.sounds import sounding, tone
from tests.support.videos import encoded, shades
from workers.decode.quiet import quiet

Seeds = tuple[tuple[str, bytes], ...]
"""Each with its name."""

_VIDEOS = [
    *[("libx264", "mp4"), ("libx264", "mov"), ("libx264", "matroska"), ("libx264", "avi"), ("libx265", "mp4")],
    *[("libsvtav1", "mp4"), ("libsvtav1", "webm"), ("libvpx", "webm"), ("libvpx-vp9", "webm")],
    *[("mpeg4", "avi"), ("mpeg4", "mp4"), ("mjpeg", "avi"), ("gif", "gif")],
]
_RECORDINGS = [
    *[("WAV", "PCM_16"), ("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("WAV", "ULAW")],
    *[("WAV", "IMA_ADPCM"), ("WAV", "MS_ADPCM"), ("WAV", "GSM610"), ("RF64", "PCM_16"), ("W64", "PCM_16")],
    *[("AIFF", "PCM_16"), ("AU", "PCM_16"), ("AU", "G721_32"), ("CAF", "PCM_16"), ("CAF", "ALAC_16")],
    *[("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")],
]
_TRACKS = [
    *[("aac", "mp4"), ("aac", "adts"), ("alac", "ipod"), ("libopus", "webm"), ("flac", "matroska")],
    *[("libmp3lame", "avi"), ("pcm_s24le", "mov"), ("pcm_mulaw", "mov"), ("eac3", "mp4"), ("ac3", "matroska")],
]


@cache
def images() -> Seeds:
    return tuple(_images())


def _images() -> Iterator[tuple[str, bytes]]:
    rng = np.random.default_rng(0)
    colour = Pillow.fromarray(rng.integers(0, 256, (24, 32, 3)).astype(np.uint8))
    turned = Pillow.Exif()
    turned[0x0112] = 6
    for name, kind, picture, options in [
        ("jpeg", "JPEG", colour, {}),
        ("jpeg turned", "JPEG", colour, {"exif": turned, "subsampling": 0}),
        ("jpeg progressive", "JPEG", colour, {"progressive": True}),
        ("jpeg grey", "JPEG", colour.convert("L"), {}),
        ("jpeg cmyk", "JPEG", colour.convert("CMYK"), {}),
        ("png", "PNG", colour, {"exif": turned}),
        ("png alpha", "PNG", colour.convert("RGBA"), {}),
        ("png palette", "PNG", colour.quantize(16), {"transparency": 3}),
        ("png key", "PNG", colour, {"transparency": (1, 2, 3)}),
        ("png 16", "PNG", Pillow.fromarray(rng.integers(0, 1 << 16, (8, 9)).astype(np.uint16)), {}),
        ("png 1", "PNG", colour.convert("1"), {}),
        ("webp", "WEBP", colour, {"exif": turned}),
        ("webp lossless", "WEBP", colour.convert("RGBA"), {"lossless": True}),
        ("avif", "AVIF", colour, {"speed": 10}),
        ("gif", "GIF", colour.quantize(16), {"transparency": 3}),
        ("bmp", "BMP", colour, {}),
        ("bmp palette", "BMP", colour.quantize(16), {}),
        ("tiff", "TIFF", colour, {"exif": turned}),
        ("tiff deflate", "TIFF", colour, {"compression": "tiff_adobe_deflate"}),
        ("tiff lzw", "TIFF", colour.convert("RGBA"), {"compression": "tiff_lzw"}),
        ("tiff jpeg", "TIFF", colour, {"compression": "jpeg"}),
        ("tiff fax", "TIFF", colour.convert("1"), {"compression": "group4"}),
        ("tiff packbits", "TIFF", colour.quantize(16), {"compression": "packbits"}),
        ("ppm", "PPM", colour, {}),
        ("pgm", "PPM", colour.convert("L"), {}),
        ("pbm", "PPM", colour.convert("1"), {}),
        ("jpeg 2000", "JPEG2000", colour, {}),
        ("jpeg 2000 stream", "JPEG2000", colour, {"no_jp2": True, "irreversible": True}),
    ]:
        yield name, _saved(picture, kind, **options)
    yield "ppm plain", b"P3 2 2 255 1 2 3 4 5 6 7 8 9 10 11 12\n"
    yield "png wide key", wide_png()
    for kind in ("GIF", "WEBP", "PNG"):
        yield f"{kind} moving", animation(kind)
    if find_spec("pillow_heif"):
        from pillow_heif import from_pillow

        file = io.BytesIO()
        from_pillow(colour).save(file, quality=50)
        yield "heic", file.getvalue()


def _saved(picture: Pillow.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def animation(kind: str) -> bytes:
    """Three frames, half transparent where the format can be."""
    first, *others = (Pillow.new("RGBA", (8, 6), (100 * number, 0, 0, 128)) for number in range(3))
    return _saved(first, kind, save_all=True, append_images=others, duration=[100, 50, 200])


def wide_png() -> bytes:
    """Sixteen bits a sample, interlaced rows of one size, and a transparent colour."""
    rows = b"".join(b"\0" + bytes(range(4 * 6)) for _ in range(4))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in [
            (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0)),
            (b"tRNS", bytes(range(6))),
            (b"IDAT", zlib.compress(rows)),
            (b"IEND", b""),
        ]
    )


@cache
def videos() -> Seeds:
    with quiet():  # an encoder of AV1 speaks of itself
        made = [(f"{codec} {kind}", encoded(shades(6), codec, kind)) for codec, kind in _VIDEOS]
    made.append(("turned", encoded(shades(4), rotation=90)))
    made.append(("fragments", encoded(shades(6), container={"movflags": "frag_keyframe+empty_moov"}, g="3", bf="2")))
    made.append(("uneven", encoded(shades(4), kind="matroska", times_ms=[0, 40, 50, 300])))
    made.append(("with sound", sounding(tone(0.1), video=True)))
    pictures = dict(images())
    reel = Reel((pictures["jpeg"], pictures["png alpha"], pictures["avif"]), 2.0)
    return (*made, ("webp", animation("WEBP")), ("gif alpha", animation("GIF")), ("list of frames", reel.pack()))


@cache
def sounds() -> Seeds:
    made = []
    for kind, subtype in _RECORDINGS:
        file = io.BytesIO()
        rate = 8000 if subtype == "GSM610" else 16_000
        samples = tone(0.05, rate, 1 if subtype in ("GSM610", "G721_32") else 2)
        soundfile.write(file, samples, rate, format=kind, subtype=subtype)
        made.append((f"{kind} {subtype}", file.getvalue()))
    for codec, kind in _TRACKS:
        options = {"strict": "-2"} if codec == "libopus" else {}
        made.append((f"{codec} {kind}", sounding(tone(0.1), codec, kind, **options)))
    made.append(("beside a video", sounding(tone(0.1), "aac", "mp4", video=True)))
    return tuple(made)


@cache
def sources() -> Seeds:
    """What stands in a body for one item: base64 in its spellings, data: URLs, handles, addresses."""
    pixel = base64.b64encode(dict(images())["png 1"]).decode()
    texts = {
        "base64": pixel,
        "base64 url": pixel.replace("+", "-").replace("/", "_").rstrip("="),
        "base64 lines": "\r\n".join(pixel[at : at + 20] for at in range(0, len(pixel), 20)),
        "data": f"data:image/png;base64,{pixel}",
        "data odd": f'DATA:;charset=utf-8;name="a;b";BASE64 ,{pixel}',
        "data percent": "data:image/png;base64," + pixel.replace("=", "%3D").replace("+", "%2B"),
        "handle": "sha256:" + 64 * "a",
        "http": "http://user:secret@example.org:80/a/b?c=d#e",
        "https": "https://[2001:db8::1]:443/%7Efile?x=%20",
        "file": "file:///data/media/a%20b.png",
        "names": "http://xn--bcher-kva.example./",
    }
    return tuple((name, text.encode()) for name, text in texts.items())


@cache
def bodies() -> Seeds:
    """Whole bodies: SGLang's shape and OpenAI's."""
    pixel = "data:image/png;base64,AAAA"
    native = {
        "text": ["a<image>", "b"],
        "image_data": [[pixel, {"url": "http://example.org/a.png"}], None],
        "video_data": [None, {"frames": [pixel, {"url": pixel}], "fps": 4}],
        "audio_data": None,
        "mm_hashes": None,
        "sampling_params": {"max_new_tokens": 4, "temperature": 0.5, "stop": ["x"], "n": 2},
        "multimodal_video_fps": 2.0,
        "rid": ["r1", "r2"],
        "model": "m",
        "stream": False,
        "priority": 1,
        "timeout_ms": 1000,
    }
    single = {
        "input_ids": [1, 2, 3],
        "image_data": pixel,
        "multimodal_x": {"a": [1, {"b": None}]},
        "features": "sha256",
    }
    parts = [
        {"type": "text", "text": "hello"},
        {"type": "image_url", "image_url": {"url": pixel, "detail": "low"}},
        {"type": "video_url", "video_url": {"frames": [pixel, pixel], "fps": 0.5}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ]
    chat = {
        "model": "m",
        "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": parts}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 4,
        "stop": ["x"],
        "tools": [{"type": "function", "function": {"name": "f"}}],
    }
    return tuple(
        (name, json.dumps(body).encode()) for name, body in (("batch", native), ("one", single), ("chat", chat))
    )
