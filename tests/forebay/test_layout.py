"""Prompt expansion: placeholders become tokens, and every item knows where its tokens stand."""

import numpy as np
import pytest

from forebay import Layout, Modality, Rejected, Run, Span
from forebay.layout import expand

IMAGE, VIDEO, AUDIO = Modality.IMAGE, Modality.VIDEO, Modality.AUDIO
PLACEHOLDERS = {IMAGE: 7, AUDIO: 8}


def spans(expansion):
    return [[(span.first, span.last) for span in item] for item in expansion.spans]


def test_a_placeholder_becomes_its_items_tokens():
    """Ends are inclusive, and what stood around stays."""
    expansion = expand([1, 7, 2], PLACEHOLDERS, [IMAGE], [Layout.repeat(7, 3)])

    assert expansion.input_ids.tolist() == [1, 7, 7, 7, 2]
    assert expansion.input_ids.dtype == np.int64
    assert spans(expansion) == [[(1, 3)]]


def test_a_prompt_without_items_stays_as_it_is():
    """Text passes through."""
    expansion = expand([1, 2, 3], PLACEHOLDERS, [], [])

    assert expansion.input_ids.tolist() == [1, 2, 3]
    assert expansion.spans == ()


def test_the_ith_placeholder_belongs_to_the_ith_item_of_its_modality():
    """Parts stay where the caller wrote them, however the modalities interleave."""
    modalities = [AUDIO, IMAGE, IMAGE]
    layouts = [Layout.repeat(8, 1), Layout.repeat(7, 2), Layout.repeat(7, 3)]

    expansion = expand([7, 1, 8, 2, 7], PLACEHOLDERS, modalities, layouts)

    assert expansion.input_ids.tolist() == [7, 7, 1, 8, 2, 7, 7, 7]
    assert spans(expansion) == [[(3, 3)], [(0, 1)], [(5, 7)]]


def test_adjacent_placeholders_are_two_items():
    """Nothing needs to stand between them, and they may open and end the prompt."""
    expansion = expand([7, 7], PLACEHOLDERS, [IMAGE, IMAGE], [Layout.repeat(7, 2), Layout.repeat(7, 1)])

    assert expansion.input_ids.tolist() == [7, 7, 7]
    assert spans(expansion) == [[(0, 1)], [(2, 2)]]


def test_separators_stand_between_the_spans_of_an_item():
    """A run that carries no features is prompt, not span; an empty run is nothing."""
    layout = Layout((Run(50, 1, carries=False), Run(7, 2), Run(51, 1, carries=False), Run(7, 1), Run(7, 0)))

    expansion = expand([1, 7, 2], PLACEHOLDERS, [IMAGE], [layout])

    assert expansion.input_ids.tolist() == [1, 50, 7, 7, 51, 7, 2]
    assert spans(expansion) == [[(2, 3), (5, 5)]]
    assert (layout.length, layout.tokens) == (5, 3)


def test_tokens_that_an_expansion_writes_are_no_placeholders():
    """An audio item whose tokens happen to be the image's placeholder shifts nothing."""
    expansion = expand([8, 7], PLACEHOLDERS, [AUDIO, IMAGE], [Layout.repeat(7, 2), Layout.repeat(7, 1)])

    assert spans(expansion) == [[(0, 1)], [(2, 2)]]


@pytest.mark.parametrize(
    ("prompt", "modalities", "message"),
    [
        ([7, 1, 7], [IMAGE], "the prompt has 2 image placeholders, the request has 1 image"),
        ([7], [IMAGE, IMAGE], "the prompt has 1 image placeholder, the request has 2 images"),
        ([7], [], "the prompt has 1 image placeholder, the request has 0 images"),
        ([1], [IMAGE], "the prompt has 0 image placeholders, the request has 1 image"),
        ([7, 8, 8], [IMAGE, AUDIO], "the prompt has 2 audio placeholders, the request has 1 audio"),
        ([1], [VIDEO], "the prompt has 0 video placeholders, the request has 1 video"),
    ],
)
def test_other_counts_are_refused_with_both_numbers(prompt, modalities, message):
    """In both directions, and for a modality that has no placeholder at all."""
    with pytest.raises(Rejected) as caught:
        expand(prompt, PLACEHOLDERS, modalities, [Layout.repeat(9, 1)] * len(modalities))

    assert caught.value.message == message
    assert caught.value.code == "placeholder_mismatch"
    assert caught.value.param in ("image_data", "audio_data", "video_data")


def test_spans_cover_exactly_the_tokens_that_carry():
    """The law behind all of it, over many random layouts."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        layouts = [
            Layout(
                tuple(
                    Run(int(rng.integers(100, 110)), int(rng.integers(0, 4)), bool(rng.integers(2))) for _ in range(3)
                )
            )
            for _ in range(rng.integers(0, 4))
        ]
        prompt = [1, *(token for _ in layouts for token in (7, 2))]

        expansion = expand(prompt, PLACEHOLDERS, [IMAGE] * len(layouts), layouts)

        assert len(expansion.input_ids) == len(prompt) - len(layouts) + sum(layout.length for layout in layouts)
        for layout, own in zip(layouts, expansion.spans, strict=True):
            carried = np.repeat([r.token_id for r in layout.runs], [r.count if r.carries else 0 for r in layout.runs])
            covered = [expansion.input_ids[span.first : span.last + 1] for span in own]
            assert np.array_equal(np.concatenate(covered or [[]]), carried)
            assert sum(span.length for span in own) == layout.tokens


def test_a_span_counts_both_of_its_ends():
    """One token is first and last at once."""
    assert Span(4, 4).length == 1
    assert Span(4, 9).length == 6
