"""The extension map: what is taken, and by which path everything else is refused."""

from __future__ import annotations

import pytest

from forebay import Rejected
from forebay.drive import typed_extensions

BOX = [0, 0, 5, 5]


def typed(processor, extensions):
    return typed_extensions(processor.capabilities(), extensions, load=processor.load_extensions)


@pytest.mark.parametrize(
    ("boxes", "expected"),
    [
        ([], ()),
        ([BOX], (((0, 0, 5, 5),),)),
        ([[BOX]], (((0, 0, 5, 5),),)),
        ([[], [BOX, BOX]], ((), ((0, 0, 5, 5), (0, 0, 5, 5)))),
        ([[0, 0, 65_535, 65_535]], (((0, 0, 65_535, 65_535),),)),
    ],
)
def test_boxes_are_a_list_or_one_a_page(processor, boxes, expected):
    """A flat list is that of the only page."""
    assert typed(processor, {"multimodal_boxes": boxes}).multimodal_boxes == expected


def test_a_hint_is_short_text(processor):
    """Of up to two hundred characters."""
    assert typed(processor, {"multimodal_hint": "é" * 200}).multimodal_hint == "é" * 200


@pytest.mark.parametrize(
    ("extensions", "path", "told"),
    [
        ({"multimodal_box": [BOX]}, "multimodal_box", "Extra inputs are not permitted"),
        ({"multimodal_boxes": "all"}, "multimodal_boxes", "valid tuple"),
        ({"multimodal_boxes": [[0, 0, 5]]}, "multimodal_boxes.0.0.3", "required"),
        ({"multimodal_boxes": [[0, 0, 5, 5, 5]]}, "multimodal_boxes.0.0", "at most 4 items"),
        ({"multimodal_boxes": [BOX, [0, -1, 5, 5]]}, "multimodal_boxes.0.1.1", "greater than or equal to 0"),
        ({"multimodal_boxes": [[0, 0, 5, 65_536]]}, "multimodal_boxes.0.0.3", "less than or equal to 65535"),
        ({"multimodal_boxes": [[0, 0, 5.5, 5]]}, "multimodal_boxes.0.0.2", "valid integer"),
        ({"multimodal_boxes": [[0, 0, True, 5]]}, "multimodal_boxes.0.0.2", "valid integer"),
        ({"multimodal_boxes": [[0, 0, "5", 5]]}, "multimodal_boxes.0.0.2", "valid integer"),
        ({"multimodal_boxes": [[5, 0, 5, 5]]}, "multimodal_boxes.0.0", r"\[5, 0, 5, 5\] is no box: x0 < x1"),
        ({"multimodal_boxes": [[BOX], [[0, 9, 5, 5]]]}, "multimodal_boxes.1.0", r"\[0, 9, 5, 5\] is no box"),
        ({"multimodal_boxes": [BOX] * 9}, "multimodal_boxes", "page 0 has 9 boxes; this model reads at most 8"),
        ({"multimodal_hint": ""}, "multimodal_hint", "at least 1 character"),
        ({"multimodal_hint": "a" * 201}, "multimodal_hint", "at most 200 characters"),
        ({"multimodal_hint": 5}, "multimodal_hint", "valid string"),
        ({"multimodal_hint": ["a"]}, "multimodal_hint", "valid string"),
    ],
)
def test_everything_else_is_refused_by_its_path(processor, extensions, path, told):
    """With the rule that it breaks."""
    with pytest.raises(Rejected, match=told) as refusal:
        typed(processor, extensions)

    assert (refusal.value.code, refusal.value.param) == ("invalid_extensions", path)
