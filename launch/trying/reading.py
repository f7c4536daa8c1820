"""Files as a worker decodes them for a processor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forebay.client.files import MediaFile
from forebay.drive import extensions_by_item
from forebay.errors import Failed
from forebay.features import Modality
from forebay.media import Audio, Clip, Image, Media, Video, digest_of
from forebay.processor import Capabilities, Processor, TypedExtensions


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """A file that was decoded, and how long that took."""

    path: Path
    media: Media
    seconds: float


def read(
    paths: Sequence[Path], processor: Processor, capabilities: Capabilities, extensions: TypedExtensions
) -> list[Read]:
    """Decode each file.

    Raises:
        FileError: a file that is not there, or whose name tells no kind.
        Rejected: one that cannot be decoded.
        Failed: the processor wants frames that are not there.
        ModuleNotFoundError: a decoder is not installed.
    """
    import workers.decode  # noqa: F401 - not counted as the first file's time

    counts = dict.fromkeys(Modality, 0)
    found = []
    files = [MediaFile.at(path) for path in paths]
    own = extensions_by_item(processor, extensions, [file.modality for file in files])
    for path, file, said in zip(paths, files, own, strict=True):
        param = f"{file.modality}_data[{counts[file.modality]}]"
        counts[file.modality] += 1
        data = file.read()
        began = time.perf_counter()
        media = _decoded(file.modality, data, param, processor, capabilities, said)
        found.append(Read(path, media, time.perf_counter() - began))
    return found


def _decoded(
    modality: Modality,
    data: bytes,
    param: str,
    processor: Processor,
    capabilities: Capabilities,
    extensions: TypedExtensions,
) -> Media:
    from workers.decode import decode_audio, decode_image, decode_video
    from workers.decode.identity import hash_of

    digest, short = digest_of(data), hash_of(data)
    if modality is Modality.IMAGE:
        return Image(decode_image(data, param), digest, short, param)
    if modality is Modality.AUDIO:
        rate = capabilities.audio_rate_hz
        return Audio(decode_audio(data, rate, param), rate, digest, short, param)

    def choose(clip: Clip) -> Sequence[int]:
        indices = tuple(processor.sample_frames(clip, extensions))
        if not indices or min(indices) < 0 or max(indices) >= clip.frames or list(indices) != sorted(indices):
            raise Failed("invalid_result", f"the processor wants frames {list(indices)[:8]} of {clip.frames}")
        return indices

    sampled = decode_video(data, choose, param)
    return Video(sampled.frames, sampled.indices, sampled.times_s, sampled.clip, digest, short, param)
