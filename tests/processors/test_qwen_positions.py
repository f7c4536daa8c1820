"""M-RoPE positions of prompts with images."""

import numpy as np
import pytest

from forebay import Span
from processors.qwen_vl.geometry import Grid
from processors.qwen_vl.mrope import Block, positions


def test_an_image_spreads_over_its_grid_and_text_resumes_behind_it():
    """Three rows: time stands still in a picture, height and width run over its tokens; delta is max + 1 - n."""
    result = positions(12, [Block(Span(4, 9), Grid(1, 2, 3))])

    assert result.mrope.tolist() == [
        [0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 7, 8],
        [0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 7, 8],
        [0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8],
    ]
    assert result.delta == -3


def test_a_still_image_has_one_time_step():
    """C043: no model scales the temporal position of a picture by its seconds."""
    result = positions(9, [Block(Span(3, 6), Grid(1, 2, 2))])

    assert result.mrope.T.tolist() == [
        [0, 0, 0],
        [1, 1, 1],
        [2, 2, 2],
        [3, 3, 3],
        [3, 3, 4],
        [3, 4, 3],
        [3, 4, 4],
        [5, 5, 5],
        [6, 6, 6],
    ]
    assert result.delta == -2


def test_a_prompt_may_begin_and_end_with_an_image_and_images_may_touch():
    """No text is needed anywhere; each picture starts where the one before it ends."""
    result = positions(7, [Block(Span(0, 3), Grid(1, 2, 2)), Block(Span(4, 6), Grid(1, 1, 3))])

    assert result.mrope.tolist() == [
        [0, 0, 0, 0, 2, 2, 2],
        [0, 0, 1, 1, 2, 2, 2],
        [0, 1, 0, 1, 2, 3, 4],
    ]
    assert result.delta == -2


def test_positions_are_what_a_scheduler_accepts():
    """int64, three rows, in C order, as long as the prompt."""
    result = positions(6, [Block(Span(1, 4), Grid(1, 2, 2))])

    assert result.mrope.dtype == np.int64
    assert result.mrope.shape == (3, 6)
    assert result.mrope.flags.c_contiguous


def test_a_span_that_does_not_hold_its_grid_is_our_own_error():
    """Spans and grids come from one layout; if they disagree, nothing is guessed."""
    with pytest.raises(ValueError, match="reshape"):
        positions(6, [Block(Span(1, 3), Grid(1, 2, 2))])
