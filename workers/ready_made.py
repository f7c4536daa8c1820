"""A ready-made feature from the media store, with the outline of what it was made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forebay.errors import Failed
from forebay.features import Modality
from forebay.media import Audio, Clip, Image, Media, Video
from forebay.plugins import LoadedProcessor
from forebay.processor import TypedExtensions
from forebay.ready_made import ReadyMade, check_takes
from forebay.task import MediaRef
from handoff.ready_made import unpack
from workers.decode.identity import hash_of


def read_ready_made(data: bytes, ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions) -> ReadyMade:
    """The item that the API has packed.

    Raises:
        Rejected: the processor takes none, or would take no frame of such a video.
        Failed: it is not the API's.
    """
    check_takes(loaded, ref.param)
    try:
        feature, made_of = unpack(data)
        outline = _outline(made_of, ref, loaded, extensions)
    except (ValueError, KeyError) as error:
        raise Failed("internal_error", f"{ref.param}: a ready-made feature that cannot be read: {error}") from error
    return ReadyMade(feature, outline, ref.digest, hash_of(data), ref.param)


def _outline(sizes: Mapping[str, float], ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions) -> Media:
    if ref.modality is Modality.AUDIO:
        samples = np.broadcast_to(np.zeros((), np.float32), (int(sizes["samples"]),))
        return Audio(samples, loaded.capabilities.audio_rate_hz, ref.digest, 0, ref.param)
    height, width = int(sizes["height"]), int(sizes["width"])
    if ref.modality is Modality.IMAGE:
        pixels = np.broadcast_to(np.zeros((), np.uint8), (height, width, 3))
        return Image(pixels, ref.digest, 0, ref.param)
    count, fps = int(sizes["frames"]), float(sizes["fps"])
    clip = Clip(count, fps, count / fps, width, height)
    indices = loaded.choose_frames(clip, extensions, ref.param)
    frames = np.broadcast_to(np.zeros((), np.uint8), (len(indices), height, width, 3))
    return Video(frames, indices, tuple(index / fps for index in indices), clip, ref.digest, 0, ref.param)
