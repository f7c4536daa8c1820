"""What authors test with: it holds a processor to the contract and names the rule that was broken."""

import numpy as np
import pytest

from forebay import ModelSource, Processed
from forebay.testing import audio, check_processor, image
from tests.support.toys import Toy

RED = image([[[255, 0, 0]]])


def test_a_sound_processor_passes():
    """And its first result comes back."""
    output = check_processor(Toy(ModelSource("toy")), [RED], input_ids=[7])

    assert output.items[0].feature.array.tolist() == [[255, 0, 0]]


def test_a_processor_that_computes_something_else_the_second_time_is_found():
    """Two equal requests have equal features, or no cache may be trusted."""

    class Counting(Toy):
        calls = 0

        def process_item(self, media, work):
            self.calls += 1
            done = super().process_item(media, work)
            done.feature.array[:] += self.calls
            return done

    with pytest.raises(AssertionError, match="item 0 differs between two equal requests"):
        check_processor(Counting(ModelSource("toy")), [RED], input_ids=[7])


def test_a_processor_that_keeps_its_output_array_is_found():
    """On a worker that array is another request's by then."""

    class Keeping(Toy):
        kept = None
        calls = 0

        def process_item(self, media, work):
            done = super().process_item(media, work)
            if self.kept is None:
                self.kept = done
            else:
                self.kept.feature.array[:] = 0
            return done

    with pytest.raises(AssertionError, match="item 0 was overwritten by a later request"):
        check_processor(Keeping(ModelSource("toy")), [RED], input_ids=[7])


def test_a_processor_that_moves_its_tokens_is_found():
    """Spans and ids come from one layout, the same each time."""

    class Growing(Toy):
        calls = 0

        def process_item(self, media, work):
            self.calls += 1
            done = super().process_item(media, work)
            return Processed(done.feature, done.tokens)

        def layout(self, processed, modality):
            from forebay import Layout, Run

            return Layout((Run(50, self.calls, carries=False), Run(7, processed.tokens)))

    with pytest.raises(AssertionError, match="input_ids differ between two equal requests"):
        check_processor(Growing(ModelSource("toy")), [RED], input_ids=[7])


@pytest.mark.parametrize("pixels", [[[1, 2, 3]], np.zeros((2, 2, 4)), np.zeros((2, 2))])
def test_pixels_are_height_width_and_colour(pixels):
    """The axis is explicit, so a one-pixel image is never turned."""
    with pytest.raises(ValueError, match=r"pixels must be \[height, width, 3\]"):
        image(pixels)


def test_media_for_tests_have_an_identity_of_their_content():
    """Equal content, equal identity."""
    assert (image([[[1, 2, 3]]]).height, image([[[1, 2, 3]] * 5]).width) == (1, 5)
    assert image([[[1, 2, 3]]]).hash == image([[[1, 2, 3]]]).hash != image([[[1, 2, 4]]]).hash
    assert audio([0, 1], 8_000).duration_s == 2 / 8_000
    assert audio([0, 1]).digest.startswith("sha256:")
