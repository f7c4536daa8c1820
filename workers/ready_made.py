"""A ready-made feature from the media store, with the outline of what it was made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from forebay.errors import Failed
from forebay.features import Modality
from forebay.media import Audio, Clip, Image, Media, Video
from forebay.plugins import LoadedProcessor
from forebay.processor import TypedExtensions
from forebay.ready_made import ReadyMade, check_takes
from forebay.task import MediaRef
from handoff.ready_made import SIZES, unpack
from workers.decode import audio_limits, video_limits
from workers.decode.identity import hash_of
from workers.decode.image import check_pixels

Sizes = Mapping[str, float]


def read_ready_made(data: bytes, ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions) -> ReadyMade:
    """The item that the API has packed.

    Raises:
        Rejected: the processor takes none, or media of that size would be refused.
        Failed: it is not the API's.
    """
    check_takes(loaded, ref.param)
    try:
        feature, made_of = unpack(data)
        sizes = {name: made_of[name] for name in SIZES[ref.modality]}
    except (ValueError, KeyError) as error:
        raise Failed("internal_error", f"{ref.param}: a ready-made feature that cannot be read: {error}") from error
    outline = _OUTLINES[ref.modality](sizes, ref, loaded, extensions)
    return ReadyMade(feature, outline, ref.digest, hash_of(data), ref.param)


def _picture(sizes: Sizes, ref: MediaRef, _loaded: LoadedProcessor, _extensions: TypedExtensions) -> Image:
    height, width = int(sizes["height"]), int(sizes["width"])
    check_pixels(width, height, ref.param)
    return Image(np.broadcast_to(np.zeros((), np.uint8), (height, width, 3)), ref.digest, 0, ref.param)


def _recording(sizes: Sizes, ref: MediaRef, loaded: LoadedProcessor, _extensions: TypedExtensions) -> Audio:
    samples, rate = int(sizes["samples"]), loaded.capabilities.audio_rate_hz
    audio_limits.check_size(samples, rate, 1, ref.param)
    return Audio(np.broadcast_to(np.zeros((), np.float32), (samples,)), rate, ref.digest, 0, ref.param)


def _video(sizes: Sizes, ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions) -> Video:
    count, fps = int(sizes["frames"]), float(sizes["fps"])
    height, width = int(sizes["height"]), int(sizes["width"])
    video_limits.check_frames(count, ref.param)
    video_limits.check_duration(count / fps, ref.param)
    video_limits.check_size(width, height, ref.param)
    clip = Clip(count, fps, count / fps, width, height)
    indices = loaded.choose_frames(clip, extensions, ref.param)
    video_limits.check_sampled(len(indices), width, height, ref.param)
    frames = np.broadcast_to(np.zeros((), np.uint8), (len(indices), height, width, 3))
    return Video(frames, indices, tuple(index / fps for index in indices), clip, ref.digest, 0, ref.param)


_Outline = Callable[[Sizes, MediaRef, LoadedProcessor, TypedExtensions], Media]
_OUTLINES: Mapping[Modality, _Outline] = {Modality.IMAGE: _picture, Modality.AUDIO: _recording, Modality.VIDEO: _video}
