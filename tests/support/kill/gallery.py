"""A few pictures of very different sizes, a processor whose features are large, and an engine that believes nothing.

What belongs to a request stands in its id, so whoever sees a part of one can tell whether it is the right part.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forebay import Admission, DType, Emission, Engine, Feature, ModelSource, Processed, Room
from tests.support.media import plain_png
from tests.support.toys import IMAGE_TOKEN, Toy
from tests.support.ways import MODEL

PICTURES = 24
COLUMNS = 8192
FIRST_NAME = 100
"""The token that says which picture comes next in a prompt: this one for picture 0."""

_ROWS = (8, 12, 16, 24, 32, 40, 64, 96)  # features from 256 KiB to 3 MiB, 28 MiB all together
_STEP_S = 0.01


def rows(picture: int) -> int:
    return _ROWS[picture % len(_ROWS)]


def drawn(picture: int) -> bytes:
    """The file that a caller sends."""
    return plain_png(2, rows(picture), (picture + 1, 0, 0))


def feature(picture: int) -> np.ndarray:
    """What must come of it: every number tells its picture and its place."""
    first = (picture + 1) * 500_000 + np.arange(rows(picture))[:, None] * COLUMNS
    return (first + np.arange(COLUMNS)).astype(np.float32)  # below 2**24, so exact


FEATURES = [feature(picture) for picture in range(PICTURES)]
SHA256 = [hashlib.sha256(one.tobytes()).hexdigest() for one in FEATURES]


def rid_of(kind: str, number: int, pictures: Sequence[int]) -> str:
    """A request's id: what is asked, which one it is, and its pictures."""
    return "-".join([kind, str(number), *map(str, pictures)])


def pictures_of(rid: str) -> list[int]:
    return [int(part) for part in rid.split("-")[2:]]


def prompt(pictures: Sequence[int]) -> tuple[int, ...]:
    """The prompt before it is expanded."""
    return (1, *(token for picture in pictures for token in (FIRST_NAME + picture, IMAGE_TOKEN)))


def expanded(pictures: Sequence[int]) -> list[int]:
    """And after."""
    return [1, *(token for one in pictures for token in (FIRST_NAME + one, *[IMAGE_TOKEN] * rows(one)))]


class Wide(Toy):
    """The toy with rows of 32 KiB. It takes its time, so that it is killed in the middle of a feature."""

    def feature_bytes(self, media: Any) -> int:
        picture = int(media.pixels[0, 0, 0]) - 1
        return 0 if picture % 5 == 0 else 4 * COLUMNS * media.height  # some sizes nobody foresees

    def process_item(self, media: Any, work: Any) -> Processed:
        array = work.empty((media.height, COLUMNS), DType.FLOAT32)
        first = media.pixels[:, :1, 0] * 500_000.0 + np.arange(media.height)[:, None] * COLUMNS
        for part in (slice(0, media.height // 2), slice(media.height // 2, None)):
            array[part] = first[part] + np.arange(COLUMNS)
            time.sleep(random.uniform(0.001, 0.02))
        return Processed(Feature.of(array, DType.FLOAT32), media.height, {"rows": media.height})


class Doubting(Engine):
    """Keeps a request for some steps, and in each looks whether everything it was given is still the request's own."""

    most_requests, most_tokens = 4, 1000

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._admitted: dict[str, Admission] = {}
        self._left: dict[str, int] = {}

    @classmethod
    def create(cls, model: ModelSource) -> Doubting:
        raise NotImplementedError("made by hand")

    def room(self) -> Room:
        taken = sum(len(admission.input_ids) for admission in self._admitted.values())
        return Room(self.most_requests - len(self._admitted), self.most_tokens - taken)

    def admit(self, admission: Admission) -> None:
        self._admitted[admission.rid] = admission
        self._left[admission.rid] = random.randint(1, 40)
        self._look_at(admission)

    def step(self) -> list[Emission]:
        time.sleep(_STEP_S)
        return [self._go_on(rid) for rid in list(self._admitted)]

    def _go_on(self, rid: str) -> Emission:
        self._look_at(self._admitted[rid])
        self._left[rid] -= 1
        if self._left[rid]:
            return Emission(rid, "x", 1)
        seen = [int(item.array[0, 0]) // 500_000 - 1 for item in self._admitted[rid].items]
        self.abort(rid)
        return Emission(rid, "", 1, "stop", {"pictures": seen})

    def abort(self, rid: str) -> None:
        self._admitted.pop(rid, None)
        self._left.pop(rid, None)

    def _look_at(self, admission: Admission) -> None:
        wrong = wrong_with(admission)
        if wrong:
            self._complain(f"a reader of {admission.rid} has seen {wrong}")


def wrong_with(admission: Admission) -> str:
    """What of an admission is not its request's; empty when all of it is."""
    pictures = pictures_of(admission.rid)
    if admission.input_ids.tolist() != expanded(pictures):
        return f"the prompt {admission.input_ids.tolist()[:20]} …"
    if len(admission.items) != len(pictures):
        return f"{len(admission.items)} pictures"
    if admission.positions is None or np.any(admission.positions.mrope != np.arange(len(admission.input_ids))):
        return "other positions"
    for item, picture in zip(admission.items, pictures, strict=True):
        if not np.array_equal(item.array, FEATURES[picture]):
            return f"at picture {picture} a feature that begins with {item.array[:1, :4].tolist()}"
    return ""


def toy_model() -> ModelSource:
    return ModelSource(MODEL)
