"""What is fuzzed: the functions that read strangers' bytes, each called as the tier calls it, and what it must give."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from api.body import read_call
from api.chat_body import read_chat
from api.fetch.address import read_address
from api.incoming import Source
from api.limits import Limits
from api.sources import resolve, scheme_of
from api.uploads import is_digest
from forebay.errors import Rejected
from forebay.features import Modality
from forebay.media import Clip
from tests.fuzz import seeds
from tests.fuzz.bodies import disordered
from tests.fuzz.mutate import mutated
from workers.decode import decode_audio, decode_image, decode_video
from workers.decode.audio import audio_length
from workers.decode.header import image_size
from workers.decode.video import Sampled, outline_video

PARAM = "media[7]"
RATE_HZ = 16_000
_MOST_BYTES = 1 << 20

Mutate = Callable[[bytes, Random, Sequence[bytes]], bytes]


@dataclass(frozen=True, slots=True)
class Target:
    """One function. ``read`` raises ``Rejected``, or ``AssertionError`` when what it got is no value."""

    read: Callable[[bytes], object]
    seeds: Callable[[], seeds.Seeds]
    mutate: Mutate = mutated
    weight: int = 1
    """How often it is tried, beside the others."""
    names_item: bool = True
    """Whether a refusal has to name the item."""


def four(clip: Clip) -> Sequence[int]:
    """Four frames, spread evenly."""
    return sorted({clip.frames * part // 4 for part in range(4)})


def image(data: bytes) -> object:
    """The pixels, of the size that ``/v1/plan`` would have said."""
    pixels = decode_image(data, PARAM)
    assert pixels.dtype == np.uint8
    assert pixels.shape[2:] == (3,), pixels.shape
    assert pixels.size, pixels.shape
    size = image_size(data, PARAM)
    assert size == pixels.shape[:2], f"the header told {size}, decoded are {pixels.shape[:2]}"
    return pixels.shape


def video(data: bytes) -> object:
    taken = decode_video(data, four, PARAM)
    _check_video(taken)
    return taken.frames.shape


def salvaged(data: bytes) -> object:
    taken = decode_video(data, four, PARAM, salvage=True)
    _check_video(taken)
    return taken.frames.shape


def _check_video(taken: Sampled) -> None:
    clip, frames = taken.clip, taken.frames
    assert frames.dtype == np.uint8
    assert frames.shape == (len(taken.indices), clip.height, clip.width, 3), frames.shape
    assert len(taken.times_s) == len(taken.indices) >= 1
    assert clip.frames > max(taken.indices), clip
    assert clip.fps > 0, clip
    assert clip.duration_s >= 0, clip
    assert list(taken.times_s) == sorted(taken.times_s), taken.times_s


def video_plan(data: bytes) -> object:
    planned = outline_video(data, four, PARAM)
    _check_video(planned)
    return planned.frames.shape


def audio(data: bytes) -> object:
    samples = decode_audio(data, RATE_HZ, PARAM)
    assert samples.dtype == np.float32
    assert samples.ndim == 1, samples.shape
    assert samples.size
    assert np.isfinite(samples).all(), "not finite"
    return samples.shape


def audio_plan(data: bytes) -> object:
    length = audio_length(data, RATE_HZ, PARAM)
    assert length >= 0, length
    return length


def image_plan(data: bytes) -> object:
    height, width = image_size(data, PARAM)
    assert min(height, width) > 0, (height, width)
    return height, width


def source(data: bytes) -> object:
    """One item of a body, as gathering reads it, up to the fetching itself."""
    text = data.decode("utf-8", "surrogatepass") if _is_text(data) else data.decode("latin-1")
    if is_digest(text):
        return text
    if scheme_of(text) in ("http", "https"):
        address = read_address(text, PARAM)
        assert address.host, address
        assert 0 < address.port < 1 << 16, address
        return address.follow(b"../x?y", PARAM)
    found = resolve(text, PARAM, _MOST_BYTES)
    assert 0 < len(found) <= _MOST_BYTES
    return len(found)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def body(data: bytes) -> object:
    """A body of either shape; of a batch every slot is a request, or a refusal."""
    limits = Limits()
    call = read_chat(data, limits).call if b'"messages"' in data else read_call(data, limits)
    assert call.slots
    for slot in call.slots:
        if isinstance(slot, Rejected):
            continue
        assert all(isinstance(one, Source) and one.modality in Modality for one in slot.sources)
        json.dumps(dict(slot.extensions))
    return len(call.slots)


TARGETS: dict[str, Target] = {
    "image": Target(image, seeds.images, weight=6),
    "image plan": Target(image_plan, seeds.images, weight=2),
    "video": Target(video, seeds.videos, weight=6),
    "video salvage": Target(salvaged, seeds.videos, weight=2),
    "video plan": Target(video_plan, seeds.videos, weight=2),
    "audio": Target(audio, seeds.sounds, weight=6),
    "audio plan": Target(audio_plan, seeds.sounds, weight=2),
    "source": Target(source, seeds.sources, weight=2),
    "body": Target(body, seeds.bodies, disordered, weight=2, names_item=False),
}
