"""What becomes of a page: four features, their spans and numbers; and the processor held to the contract."""

from __future__ import annotations

import numpy as np
import pytest
from forebay_layout_demo.page import Part
from forebay_layout_demo.processor import LayoutDemo2D

from forebay import DType, Modality, Rejected, Span
from forebay.plugins import load_processor
from forebay.testing import check_processor, image, run_processor, video

PAGE, FILM, ROW, THUMBNAIL, CROP, PLACE = range(256, 262)
BOXES = [[0, 0, 8, 16], [8, 8, 16, 32]]
# A page of 32x16 pixels has 8 rows of 4 patches.
LAID_OUT = [THUMBNAIL, *([PAGE] * 4 + [ROW]) * 8, CROP, PLACE, CROP, PLACE]


def halves():
    """32 pixels high, 16 broad: the left half is black, the right one white."""
    pixels = np.zeros((32, 16, 3), np.uint8)
    pixels[:, 8:] = 255
    return image(pixels)


def plain(height, width, value):
    return image(np.full((height, width, 3), value))


@pytest.fixture
def output(processor):
    """One page between the words 7 and 9, with two regions."""
    return run_processor(processor, [halves()], input_ids=[7, PAGE, 9], extensions={"multimodal_boxes": BOXES})


def test_it_is_sound(processor, tokenizer):
    """Every check of the conformance suite, with media of its own making; the memory check in its short form."""
    check_processor(processor, calls=50, tokenizer=tokenizer)


def test_it_is_sound_with_boxes_and_a_hint(processor, tokenizer):
    """The features that the suite's own requests do not ask for, too."""
    extensions = {"multimodal_boxes": [BOXES, []], "multimodal_hint": "total"}

    output = check_processor(
        processor, [halves(), plain(40, 50, 3)], text="a<page>b<page>", tokenizer=tokenizer, extensions=extensions
    )

    assert [item.model_specific["page"] for item in output.items] == [0, 0, 0, 0, 1, 1]


def test_a_page_is_four_items_each_of_a_type_of_its_own(output):
    """Float32, uint8 with its normalisation, bfloat16 as its bits, int64."""
    features = [item.feature for item in output.items]

    assert [(one.dtype, one.shape) for one in features] == [
        (DType.FLOAT32, (32, 768)),
        (DType.UINT8, (1, 3, 256)),
        (DType.BFLOAT16, (2, 768)),
        (DType.INT64, (2, 4)),
    ]
    assert [one.array.dtype for one in features] == [np.float32, np.uint8, np.uint16, np.int64]
    assert [one.normalisation is not None for one in features] == [False, True, False, False]
    assert [item.modality for item in output.items] == [Modality.IMAGE] * 4


def test_patches_have_a_span_a_row_and_regions_one_each(output):
    """Row marks carry nothing; crops and places alternate behind the page."""
    patches, thumbnail, crops, places = output.items

    assert output.input_ids.tolist() == [7, *LAID_OUT, 9]
    assert patches.spans == tuple(Span(at, at + 3) for at in range(2, 42, 5))
    assert thumbnail.spans == (Span(1, 1),)
    assert crops.spans == (Span(42, 42), Span(44, 44))
    assert places.spans == (Span(43, 43), Span(45, 45))


def test_integers_lists_and_small_arrays_go_with_an_item(output):
    """An array is a list, row by row, whose columns the model knows."""
    patches, thumbnail, crops, places = (dict(item.model_specific) for item in output.items)

    assert patches == {
        "part": Part.PATCHES, "page": 0, "grid": [8, 4], "boxes": 2, "to_pixels": [4.0, 0.0, 0.0, 0.0, 4.0, 0.0],
        "pages": 1, "regions": 2,
    }  # fmt: skip
    assert thumbnail == {"part": Part.THUMBNAIL, "page": 0}
    assert crops == {"part": Part.CROPS, "page": 0}
    assert places == {"part": Part.PLACES, "page": 0, "boxes": [0, 0, 8, 16, 8, 8, 16, 32]}


def test_each_feature_has_what_is_there(output):
    """Black is -1 and white is 1; a bfloat16 is the upper half of its float32; places are thousandths."""
    patches, thumbnail, crops, places = (item.feature.array for item in output.items)

    assert [np.unique(row).tolist() for row in patches] == [[-1], [-1], [1], [1]] * 8
    assert thumbnail.reshape(3, 16, 16)[:, 5].tolist() == [[0] * 8 + [255] * 8] * 3
    assert [np.unique(row).tolist() for row in crops] == [[0xBF80], [0x3F80]]
    assert places.tolist() == [[0, 0, 500, 500], [500, 250, 1000, 1000]]


def test_a_page_without_boxes_has_two_features(processor):
    """Nothing is told of regions that nobody named."""
    output = run_processor(processor, [halves()], input_ids=[PAGE])

    assert [item.model_specific["part"] for item in output.items] == [Part.PATCHES, Part.THUMBNAIL]
    assert output.input_ids.tolist() == LAID_OUT[:-4]


def test_a_text_alone_is_only_tokenized(processor, tokenizer):
    """There is no page that anything could be told of."""
    output = run_processor(processor, [], text="hi", tokenizer=tokenizer)

    assert (output.input_ids.tolist(), output.items) == ([*b"hi"], ())


@pytest.mark.parametrize(("height", "width", "grid"), [(1, 1, [8, 8]), (900, 1200, [6, 8]), (1, 900, [1, 8])])
def test_a_page_of_any_size_has_a_grid_of_its_shape(processor, height, width, grid):
    """Eight patches along the longer side, one at least along the other."""
    output = run_processor(processor, [plain(height, width, 255)], input_ids=[PAGE])

    assert output.items[0].model_specific["grid"] == grid
    assert np.unique(output.items[0].feature.array).tolist() == [1]


def test_items_of_other_pages_and_regions_have_other_hashes(processor):
    """The patches' is the page's own, so that a prefix cache finds a page again whatever regions are wanted."""
    page = halves()

    def hashes(boxes):
        output = run_processor(processor, [page], input_ids=[PAGE], extensions={"multimodal_boxes": boxes})
        return [item.hash for item in output.items]

    one, other = hashes(BOXES), hashes(BOXES[::-1])

    assert hashes(BOXES) == one
    assert one[0] == other[0] == page.hash
    assert len({*one, *other}) == 7  # two requests of four items, which share the patches


def test_the_callers_own_hashes_are_one_for_each_feature(processor):
    """They are counted by what the model gets."""
    output = run_processor(processor, [halves()], input_ids=[PAGE], caller_hashes=["a", "b"])

    assert [item.hash for item in output.items] == [10, 11]


def test_a_prompt_without_its_page_is_refused(processor):
    """As the usual flow refuses it, which still expands the prompt."""
    with pytest.raises(Rejected, match="the prompt has 0 image placeholders, the request has 1 image") as refusal:
        run_processor(processor, [halves()], input_ids=[7])

    assert refusal.value.code == "placeholder_mismatch"


def test_more_pages_than_are_declared_are_refused(processor):
    """The declared capabilities are what the flow enforces, whoever has it."""
    with pytest.raises(Rejected, match="5 items of image_data; this model takes at most 4"):
        run_processor(processor, [halves()] * 5, input_ids=[PAGE] * 5)


def test_a_film_of_a_page_is_a_page(processor):
    """All parts of it are made of the frame that was chosen."""
    frames = np.full((1, 20, 30, 3), 255, np.uint8)

    output = run_processor(
        processor, [video(frames)], input_ids=[FILM], extensions={"multimodal_boxes": [[0, 0, 5, 5]]}
    )

    assert [item.modality for item in output.items] == [Modality.VIDEO] * 4
    assert np.unique(output.items[0].feature.array).tolist() == [1]


def test_it_is_found_by_the_models_name(model):
    """The entry point is all that connects the package to Forebay; the folder brings the tokenizer."""
    loaded = load_processor(model)

    assert isinstance(loaded.processor, LayoutDemo2D)
    assert loaded.tokenizer is not None
    assert not loaded.has_usual_flow
