"""The GPU side, without a GPU: it reads every feature of a request and says what it sees, which can be checked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from forebay import Admission, AdmittedItem, DType, Emission, Engine, ModelSource, Rejected, Room
from forebay_layout_demo.page import Part
from forebay_layout_demo.settings import Settings

MOST_REQUESTS = 8


class LayoutDemoEngine(Engine):
    """Answers each request with how bright its pages and their regions are, and tells what it was given."""

    needs_folder = True

    def __init__(self, context_tokens: int) -> None:
        self._context_tokens = context_tokens
        self._answers: dict[str, Emission] = {}

    @classmethod
    def create(cls, model: ModelSource) -> LayoutDemoEngine:
        return cls(Settings.read(model).max_position_embeddings)

    def room(self) -> Room:
        free = MOST_REQUESTS - len(self._answers)
        return Room(requests=free, tokens=free * self._context_tokens)

    def admit(self, admission: Admission) -> None:
        if not admission.items:
            raise Rejected("missing_image", "the request has 0 pages; this model reads 1 or more", param="image_data")
        # Read at once: a view into shared memory that is never kept cannot be kept too long.
        text = "; ".join(_sentences(admission.items))
        meta = {"items": [_described(item) for item in admission.items], **_positions_of(admission)}
        self._answers[admission.rid] = Emission(admission.rid, text, tokens=1, finish_reason="stop", meta=meta)

    def step(self) -> Sequence[Emission]:
        answers, self._answers = self._answers, {}
        return list(answers.values())

    def abort(self, rid: str) -> None:
        self._answers.pop(rid, None)


def values_of(item: AdmittedItem) -> npt.NDArray[Any]:
    """A feature's numbers as the model computes with them: float32, or the integers of places."""
    if item.dtype is DType.BFLOAT16:  # the upper half of a float32's bits
        return (item.array.astype(np.uint32) << 16).view(np.float32)
    if item.normalisation is not None:
        mean, std = (np.array(one, np.float32)[:, None] for one in (item.normalisation.mean, item.normalisation.std))
        return (item.array.astype(np.float32) - mean) / std
    return item.array


def _sentences(items: Sequence[AdmittedItem]) -> list[str]:
    """One a page, one a region: a place is read from one feature, what is there from another."""
    said, crops = [], np.zeros((0, 1), np.float32)
    for item in items:
        part, values = item.model_specific["part"], values_of(item)
        if part == Part.PATCHES:
            said.append(f"page {item.model_specific['page']} is {_percent(values)} bright")
        elif part == Part.CROPS:
            crops = values
        elif part == Part.PLACES:
            said += [f"at {place.tolist()} it is {_percent(crop)}" for place, crop in zip(values, crops, strict=True)]
    return said


def _percent(values: npt.NDArray[np.float32]) -> str:
    """How bright values of -1 to 1 are."""
    return f"{round(50 * (float(values.mean()) + 1))} %"


def _described(item: AdmittedItem) -> dict[str, Any]:
    """What came through: shape, type, bytes, places, numbers."""
    return {
        "part": Part(cast("int", item.model_specific["part"])).name.lower(),
        "dtype": str(item.dtype),
        "shape": list(item.array.shape),
        "sha256": hashlib.sha256(item.array.tobytes()).hexdigest(),
        "mean": round(float(values_of(item).mean()), 4),
        "spans": [[span.first, span.last] for span in item.spans],
        "model_specific": dict(item.model_specific),
    }


def _positions_of(admission: Admission) -> Mapping[str, Any]:
    if admission.positions is None:
        return {}
    return {"rows": admission.positions.mrope[1].tolist(), "columns": admission.positions.mrope[2].tolist()}
