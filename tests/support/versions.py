"""Two versions of one processor, and one that cannot make up its mind, for those who serve them side by side."""

from __future__ import annotations

from typing import Any

from forebay import Modality, ModelSource, Planned, Processed, Rejected
from forebay.dtypes import DType
from tests.support.toys import Toy


class Blue(Toy):
    """What is served now."""

    release = "blue"

    def __init__(self, model: ModelSource | None = None) -> None:
        super().__init__(model or ModelSource("toy"))

    def config(self) -> dict[str, Any]:
        return {"release": self.release}

    def plan_item(self, media: Any) -> Planned:
        rows = self._rows(media)
        return Planned((rows, 3), DType.FLOAT32, rows, {"rows": rows})


class Green(Blue):
    """What is to be served next: it is off by a quarter in one place, and refuses tall pictures."""

    release = "green"

    def process_item(self, media: Any, work: Any) -> Processed:
        if media.modality is Modality.IMAGE and media.height > 8:
            raise Rejected("image_too_large", f"{media.param} has {media.height} rows; this release takes 8")
        processed = super().process_item(media, work)
        processed.feature.array[-1, -1] += 0.25
        return processed
