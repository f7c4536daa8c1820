"""An item from its reference: fetched, decoded under limits, and noted as what this life is at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from forebay.errors import Rejected
from forebay.features import Modality
from forebay.media import Audio, Clip, Image, Video
from forebay.plugins import LoadedProcessor
from forebay.processor import TypedExtensions
from forebay.ready_made import Item
from forebay.task import MediaRef
from handoff.media import MediaStore
from handoff.ready_made import is_ready_made
from workers.decode import decode_audio, decode_image, decode_video
from workers.decode.identity import hash_of
from workers.decode.image import MAX_REQUEST_PIXELS
from workers.item_limits import ItemLimits
from workers.ready_made import read_ready_made
from workers.timings import Timings


class Marks(Protocol):
    """Who can say what it is at."""

    def marked(self, text: str) -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads the items of one child's tasks.

    Attributes:
        life: says for the time of a decoding which item it is, for whoever finds that the child ended over it.
        salvage: whether a damaged video is taken for what decodes of it.
    """

    store: MediaStore
    life: Marks
    limits: ItemLimits
    salvage: bool
    _pixels: list[int] = field(default_factory=list)
    """Of every picture and frame that the request in hand has so far."""

    def begin(self) -> None:
        """What comes now is another request's."""
        self._pixels.clear()

    @contextmanager
    def guarded(self, ref: MediaRef) -> Iterator[None]:
        """For whatever reads an item's bytes, be it the header alone: under limits, and noted.

        Raises:
            Rejected: it takes too much.
        """
        with self.life.marked(ref.digest), self.limits.over(ref.param):
            yield

    def load_all(
        self, refs: Sequence[MediaRef], loaded: LoadedProcessor, own: Sequence[TypedExtensions], timings: Timings
    ) -> tuple[Item, ...]:
        """The items of one request; the same bytes, wanted in the same way, are decoded once.

        Such items share their pixels or samples, and each has its own place.

        Args:
            refs: what the request names.
            loaded: whose items they will be.
            own: for each item what of the extension map is about it.
            timings: of the request.

        Raises:
            Rejected, Failed: as ``load``, of the first item that cannot be had.
        """
        known: dict[tuple[Modality, str, str], Item] = {}
        media = []
        for ref, said in zip(refs, own, strict=True):
            key = ref.modality, ref.digest, "" if said is None else said.model_dump_json()
            if key not in known:
                known[key] = self.load(ref, loaded, said, timings)
            media.append(replace(known[key], param=ref.param))
        return tuple(media)

    def load(self, ref: MediaRef, loaded: LoadedProcessor, extensions: TypedExtensions, timings: Timings) -> Item:
        """The item as a processor gets it.

        Raises:
            Rejected: it cannot be decoded, is larger than what is decoded, or takes too much to do so.
            Failed: the store has lost it, or cannot be reached.
        """
        with timings.stage("fetch"):
            data = self.store.get(ref.digest)
        with timings.stage("decode"), self.guarded(ref):
            return self._decoded(ref, data, loaded, extensions)

    def _decoded(self, ref: MediaRef, data: bytes, loaded: LoadedProcessor, extensions: TypedExtensions) -> Item:
        if is_ready_made(data):
            return read_ready_made(data, ref, loaded, extensions)
        if ref.modality is Modality.IMAGE:
            pixels = decode_image(data, ref.param, self._left)
            self._pixels.append(pixels.shape[0] * pixels.shape[1])
            return Image(pixels, ref.digest, hash_of(data), ref.param)
        if ref.modality is Modality.AUDIO:
            rate = loaded.capabilities.audio_rate_hz
            return Audio(decode_audio(data, rate, ref.param), rate, ref.digest, hash_of(data), ref.param)

        others = len(self._pixels)

        def choose(clip: Clip) -> tuple[int, ...]:
            del self._pixels[others:]  # a video whose end is missing is chosen from anew
            chosen = loaded.choose_frames(clip, extensions, ref.param)
            self._take(len(chosen) * clip.width * clip.height, ref.param)
            return chosen

        sampled = decode_video(data, choose, ref.param, salvage=self.salvage)
        return Video(
            sampled.frames, sampled.indices, sampled.times_s, sampled.clip, ref.digest, hash_of(data), ref.param
        )

    @property
    def _left(self) -> int:
        return MAX_REQUEST_PIXELS - sum(self._pixels)

    def _take(self, pixels: int, param: str) -> None:
        """Count the frames of a video before they are decoded."""
        if self._pixels and pixels > self._left:  # a video alone has a limit of its own
            message = f"{param}: {pixels} pixels; {self._left} of the {MAX_REQUEST_PIXELS} of a request are left"
            raise Rejected("video_too_large", message, param=param, status=413)
        self._pixels.append(pixels)
