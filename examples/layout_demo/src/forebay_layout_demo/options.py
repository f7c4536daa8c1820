"""What a request may say beside its pages: which regions of them are to be read, and a hint what to look for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from forebay import Rejected

MOST_BOXES = 256  # whatever a folder says: as many as the extension map's bounds are meant for
LONGEST_HINT = 200
_Edge = Annotated[int, Field(strict=True, ge=0, le=65_535)]


def _is_a_rectangle(box: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    x0, y0, x1, y1 = box
    if x0 >= x1 or y0 >= y1:
        raise ValueError(f"[{x0}, {y0}, {x1}, {y1}] is no box: x0 < x1 and y0 < y1 are expected")
    return box


Box: TypeAlias = Annotated[tuple[_Edge, _Edge, _Edge, _Edge], AfterValidator(_is_a_rectangle)]
"""``[x0, y0, x1, y1]`` in pixels of the upright page; the second corner lies just outside."""


def _by_page(value: Any) -> Any:
    """A list of boxes is that of the only page."""
    first = value[0] if isinstance(value, list) and value else None
    is_box = isinstance(first, list) and bool(first) and not isinstance(first[0], list)
    return [value] if is_box else value


class LayoutOptions(BaseModel):
    """The extension map. ``multimodal_boxes`` is a list of boxes, or of such lists, one a page."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    multimodal_boxes: Annotated[tuple[tuple[Box, ...], ...], BeforeValidator(_by_page)] = ()
    multimodal_hint: Annotated[str, Field(strict=True, min_length=1, max_length=LONGEST_HINT)] | None = None

    @field_validator("multimodal_boxes")
    @classmethod
    def _has_no_more_than_the_model_reads(
        cls, boxes: tuple[tuple[Box, ...], ...], info: ValidationInfo
    ) -> tuple[tuple[Box, ...], ...]:
        context: Mapping[str, int] = info.context or {}
        most = context.get("max_boxes", MOST_BOXES)
        for number, one in enumerate(boxes):
            if len(one) > most:
                raise ValueError(f"page {number} has {len(one)} boxes; this model reads at most {most}")
        return boxes

    def of_page(self, number: int, pages: int) -> LayoutOptions:
        """What of it is about one of a request's pages: its boxes, and no hint.

        Raises:
            Rejected: ``length_mismatch``, boxes for another number of pages.
        """
        self.check_pages(pages)
        boxes = self.multimodal_boxes[number] if self.multimodal_boxes else ()
        return self.model_copy(update={"multimodal_boxes": (boxes,), "multimodal_hint": None})

    def check_pages(self, pages: int) -> None:
        """Refuse boxes for another number of pages.

        Raises:
            Rejected: ``length_mismatch``.
        """
        said = len(self.multimodal_boxes)
        if said not in (0, pages):
            message = f"multimodal_boxes has boxes for {said} pages, the request has {pages}"
            raise Rejected("length_mismatch", message, param="multimodal_boxes")
