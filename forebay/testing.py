"""Help for authors: run a processor as a worker would, in one process, and hold its result to the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from forebay.drive import drive, drive_item, typed_extensions
from forebay.features import Output
from forebay.media import Audio, Clip, Image, Media, Video, digest_of
from forebay.processor import Processor, Prompt, Tokenizer, Work


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


def run_processor(
    processor: Processor,
    media: Sequence[Media],
    *,
    text: str | None = None,
    input_ids: Sequence[int] | None = None,
    extensions: dict[str, Any] | None = None,
    tokenizer: Tokenizer | None = None,
    caller_hashes: Sequence[str] = (),
) -> Output:
    """Drive one request through ``processor`` and return the validated output.

    Raises:
        Rejected, Failed: exactly as on a worker.
    """
    capabilities = processor.capabilities()
    work = Work(
        rid="test",
        prompt=Prompt(text, None if input_ids is None else tuple(input_ids)),
        media=_placed(media),
        extensions=typed_extensions(capabilities, extensions or {}),
    )
    return drive(processor, capabilities, work, tokenizer or processor.tokenizer(), caller_hashes)


def check_processor(processor: Processor, media: Sequence[Media], **prompt: Any) -> Output:
    """Hold a processor to the contract: a valid result, the same one twice, independent of what ran between.

    Raises:
        AssertionError: naming the rule that was broken.
    """
    first = run_processor(processor, media, **prompt)
    kept = [item.feature.array.copy() for item in first.items]
    second = run_processor(processor, media, **prompt)
    assert np.array_equal(first.input_ids, second.input_ids), "input_ids differ between two equal requests"
    for number, (before, item, again) in enumerate(zip(kept, first.items, second.items, strict=True)):
        assert np.array_equal(before, again.feature.array), f"item {number} differs between two equal requests"
        assert np.array_equal(before, item.feature.array), f"item {number} was overwritten by a later request"
        assert item.spans == again.spans, f"item {number} has other spans the second time"
    if processor.capabilities().cacheable and type(processor).process is Processor.process:
        _check_alone(processor, _placed(media), first, prompt.get("extensions") or {})
    return first


def _check_alone(processor: Processor, media: Sequence[Media], whole: Output, extensions: dict[str, Any]) -> None:
    """What may be cached is the same whatever else its request holds."""
    capabilities = processor.capabilities()
    work = Work("alone", Prompt(ids=()), (), typed_extensions(capabilities, extensions))
    for number, (one, item) in enumerate(zip(media, whole.items, strict=True)):
        alone = drive_item(processor, capabilities, one, work).feature.array
        assert np.array_equal(alone, item.feature.array), f"item {number} is cacheable, but differs when it is alone"


def _placed(media: Sequence[Media]) -> tuple[Media, ...]:
    """The items with the places that a caller would have given them."""
    seen: Counter[str] = Counter()
    placed = []
    for one in media:
        placed.append(replace(one, param=f"{one.modality}_data[{seen[one.modality]}]"))
        seen[one.modality] += 1
    return tuple(placed)


def _digest(array: np.ndarray) -> str:
    """Of the array's shape and bytes: a wide picture and a high one may have the same bytes."""
    return digest_of(repr(array.shape).encode() + array.tobytes())


def _short_hash(array: np.ndarray) -> int:
    return int(_digest(array)[7:23], 16)
