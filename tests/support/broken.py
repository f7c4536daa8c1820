"""A sound processor, and twelve that break one rule each: what a conformance suite is good for is what it finds."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from forebay import Capabilities, DType, Feature, Layout, Modality, Output, Planned, Processed, Processor, Span, Work
from forebay.processor import Tokenizer, WorkerStart

PICTURE = 7


class Gain(BaseModel):
    """What brightens a picture."""

    model_config = ConfigDict(extra="forbid", strict=True)

    multimodal_gain: Annotated[int, Field(ge=1, le=4)] = 1


class Sound(Processor):
    """A row and a token for each line of a picture: the line's mean colour, times the gain."""

    def capabilities(self) -> Capabilities:
        return Capabilities(
            modalities={Modality.IMAGE: 4},
            placeholders={Modality.IMAGE: PICTURE},
            extensions=Gain,
            rows_per_token=1,
            vocabulary=1000,
            cacheable=True,
        )

    def plan_item(self, media: Any) -> Planned:
        return Planned((media.height, 3), DType.FLOAT32, media.height)

    def process_item(self, media: Any, work: Work) -> Processed:
        array = work.empty((media.height, 3))
        np.mean(media.pixels, axis=1, dtype=np.float32, out=array)
        array *= work.extensions.multimodal_gain  # type: ignore[union-attr]
        return Processed(Feature.of(array, DType.FLOAT32), media.height)

    def layout(self, processed: Processed, modality: Modality) -> Layout:
        return Layout.repeat(PICTURE, processed.tokens)


class WrongShape(Sound):
    """Promises a shape that its array does not have."""

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        rows, columns = done.feature.shape
        return replace(done, feature=replace(done.feature, shape=(rows, columns + 1)))


class SpanOffByOne(Sound):
    """Its spans begin and end one token late."""

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        output = super().process(work, tokenizer)
        items = [
            replace(item, spans=tuple(Span(one.first + 1, one.last + 1) for one in item.spans)) for item in output.items
        ]
        return replace(output, items=tuple(items))


class KeptArray(Sound):
    """Remembers the feature that it made last."""

    last: Any = None

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        self.last = done.feature.array[:1]
        return done


class NotANumber(Sound):
    """Divides nothing by nothing somewhere."""

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        done.feature.array[-1, 2] = np.nan
        return done


class SaltedHash(Sound):
    """Python's own hash of a text is another one in each process."""

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        output = super().process(work, tokenizer)
        items = [replace(item, hash=hash(item.digest) & (1 << 64) - 1) for item in output.items]
        return replace(output, items=tuple(items))


class NarrowIds(Sound):
    """Its ids are what another library uses."""

    def process(self, work: Work, tokenizer: Tokenizer | None) -> Output:
        output = super().process(work, tokenizer)
        return replace(output, input_ids=output.input_ids.astype(np.int32))


class MutatedInput(Sound):
    """Inverts the picture where it lies, once it has been read."""

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        np.subtract(255, media.pixels, out=media.pixels)
        return done


class ExtraThread(Sound):
    """Starts a helper with the first item, and leaves it running."""

    stop: ClassVar[threading.Event] = threading.Event()
    helper: threading.Thread | None = None

    def process_item(self, media: Any, work: Work) -> Processed:
        if self.helper is None:
            self.helper = threading.Thread(target=self.stop.wait, name="helper", daemon=True)
            self.helper.start()
        return super().process_item(media, work)

    @classmethod
    def ended(cls) -> None:
        """End every helper."""
        cls.stop.set()
        for thread in threading.enumerate():
            if thread.name == "helper":
                thread.join()


class LeakedFile(Sound):
    """Opens a file with each item, and closes none."""

    opened: ClassVar[list[int]] = []

    def process_item(self, media: Any, work: Work) -> Processed:
        self.opened.append(os.open(os.devnull, os.O_RDONLY))
        return super().process_item(media, work)

    @classmethod
    def ended(cls) -> None:
        """Close them all."""
        for number in cls.opened:
            os.close(number)
        cls.opened.clear()


class SlowPath(Sound):
    """Reads a large picture of odd width number by number, ten times: it is slow by far more than a busy machine is."""

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        if media.width % 2 and media.width > 200:
            array, gain = done.feature.array, work.extensions.multimodal_gain  # type: ignore[union-attr]
            for line, row in enumerate(media.pixels):
                for colour in range(3):
                    sums = [sum(int(one) for one in row[:, colour]) for _ in range(10)]
                    array[line, colour] = gain * sums[-1] / media.width
        return done


class WrongFlag(Sound):
    """Says that its numbers are other bits than they are."""

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        return replace(done, feature=replace(done.feature, dtype=DType.BFLOAT16))


class BlindKey(Sound):
    """Forgets to say that an item depends on the gain."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), item_fields=())


class Warmed(Sound):
    """Sound, once its worker has started: what it scales by is made there."""

    scale: Any = None

    def start_worker(self, start: WorkerStart) -> None:
        self.scale = np.float32(2)

    def process_item(self, media: Any, work: Work) -> Processed:
        done = super().process_item(media, work)
        np.multiply(done.feature.array, self.scale, out=done.feature.array)
        return done


FOUND_BY: dict[type[Sound], str] = {
    WrongShape: "shapes",
    SpanOffByOne: "spans",
    KeptArray: "kept",
    NotANumber: "values",
    SaltedHash: "hashes",
    NarrowIds: "ids",
    MutatedInput: "inputs",
    ExtraThread: "threads",
    LeakedFile: "files",
    SlowPath: "time",
    WrongFlag: "dtypes",
    BlindKey: "key",
}
"""Each of the twelve, and the check that names its fault."""


def clean_up() -> Iterator[None]:
    """End what some of them leave."""
    yield
    ExtraThread.ended()
    LeakedFile.ended()
