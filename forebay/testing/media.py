"""Media for tests: values as a worker's decoders make them, without a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay.features import Modality
from forebay.media import Audio, Clip, Image, Media, Video, digest_of
from forebay.processor import Processor, TypedExtensions


def image(pixels: Any) -> Image:
    """An image item from anything that NumPy turns into ``uint8 [h, w, 3]``."""
    array = np.ascontiguousarray(pixels, dtype=np.uint8)
    if array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"pixels must be [height, width, 3], got {list(array.shape)}")
    return Image(array, _digest(array), _short_hash(array))


def audio(samples: Any, rate_hz: int = 16_000) -> Audio:
    """An audio item from mono samples."""
    array = np.ascontiguousarray(samples, dtype=np.float32)
    return Audio(array, rate_hz, _digest(array), _short_hash(array))


def video(frames: Any, *, fps: float = 24.0) -> Video:
    """A video item that is all of a clip, from anything that NumPy turns into ``uint8 [n, h, w, 3]``."""
    array = np.ascontiguousarray(frames, dtype=np.uint8)
    if array.ndim != 4 or array.shape[3] != 3:
        raise ValueError(f"frames must be [n, height, width, 3], got {list(array.shape)}")
    count, height, width, _ = array.shape
    clip = Clip(count, fps, count / fps, width, height)
    times = tuple(number / fps for number in range(count))
    return Video(array, tuple(range(count)), times, clip, _digest(array), _short_hash(array))


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """How an item of a test comes to be, each time anew: nobody's change of it is seen by the next request.

    Attributes:
        whole: the item; of a video, all of its frames.
        is_sampled: whether a video's frames are to be chosen by the processor, as on a worker.
    """

    whole: Media
    is_sampled: bool = False

    def make(self, processor: Processor, extensions: TypedExtensions) -> Media:
        """A copy that may be written.

        Raises:
            Rejected: the processor wants no frame of it.
        """
        one = self.whole
        if not (self.is_sampled and isinstance(one, Video)):
            return _with_array(one, array_of(one).copy())
        indices = tuple(processor.sample_frames(one.clip, extensions))
        times = tuple(one.times_s[index] for index in indices)
        return replace(one, frames=one.frames[list(indices)], indices=indices, times_s=times)


def array_of(media: Media) -> npt.NDArray[Any]:
    """Its pixels, frames or samples."""
    if isinstance(media, Image):
        return media.pixels
    return media.frames if isinstance(media, Video) else media.samples


def outline_of(media: Media) -> Media:
    """The same with nothing in it: a view of one zero, as a plan gets it."""
    array = array_of(media)
    return _with_array(media, np.broadcast_to(np.zeros((), array.dtype), array.shape))


def placed(media: Sequence[Media]) -> tuple[Media, ...]:
    """The items with the places that a caller would have given them."""
    seen: Counter[str] = Counter()
    items = []
    for one in media:
        items.append(replace(one, param=f"{one.modality}_data[{seen[one.modality]}]"))
        seen[one.modality] += 1
    return tuple(items)


def noise(modality: Modality, size: Sequence[int], rate_hz: int, seed: int) -> Media:
    """An item of random content: ``size`` is (height, width), (frames, height, width) or (samples,)."""
    random = np.random.default_rng(seed)
    if modality is Modality.AUDIO:
        return audio(random.uniform(-0.5, 0.5, tuple(size)), rate_hz)
    values = random.integers(0, 256, (*size, 3), dtype=np.uint8)
    return image(values) if modality is Modality.IMAGE else video(values)


def _with_array(media: Media, array: npt.NDArray[Any]) -> Media:
    if isinstance(media, Image):
        return replace(media, pixels=array)
    return replace(media, frames=array) if isinstance(media, Video) else replace(media, samples=array)


def _digest(array: npt.NDArray[Any]) -> str:
    """Of the array's shape and bytes: a wide picture and a high one may have the same bytes."""
    return digest_of(repr(array.shape).encode() + array.tobytes())


def _short_hash(array: npt.NDArray[Any]) -> int:
    return int(_digest(array)[7:23], 16)
