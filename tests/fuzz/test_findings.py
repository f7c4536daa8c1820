"""What fuzzing has found, as bytes: each was once something other than a value or a refusal."""

from pathlib import Path

import pytest

from forebay import Rejected
from tests.fuzz.targets import PARAM, TARGETS, four
from tests.fuzz.trial import outcome
from workers.decode import decode_image, decode_video

FOUND = Path(__file__).parents[1] / "data" / "fuzz"


def test_a_picture_larger_than_its_header_says_is_damaged():
    """Only the header's size has been held to the limit, and it is what ``/v1/plan`` tells."""
    pytest.importorskip("pillow_heif")
    with pytest.raises(Rejected) as caught:
        decode_image((FOUND / "two_sizes.heic").read_bytes(), PARAM)

    assert caught.value.code == "damaged_image"


def test_a_salvaged_video_has_no_more_frames_than_times():
    """A damaged packet of AV1 gave two frames, and the second had no time."""
    video = decode_video((FOUND / "more_frames_than_packets.mp4").read_bytes(), four, PARAM, salvage=True)

    assert len(video.times_s) == len(video.indices)


@pytest.mark.parametrize("target", ["image", "image plan", "video", "video salvage", "video plan", "audio"])
@pytest.mark.parametrize("name", sorted(path.name for path in FOUND.iterdir()))
def test_nothing_that_was_found_is_found_again(target, name):
    """By any function."""
    _, wrong = outcome(TARGETS[target], (FOUND / name).read_bytes())

    assert wrong == ""
