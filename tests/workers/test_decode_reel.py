"""A list of frames is a video of its pictures: each decoded as a picture is, and only where it is wanted."""

import msgpack
import numpy as np
import pytest

from forebay import Rejected
from handoff.reel import Reel, is_reel
from tests.support.media import encoded
from workers.decode import decode_image, decode_video
from workers.decode.video import outline_video

PARAM = "video_data[1]"


def pictures(count: int = 5, height: int = 6, width: int = 8) -> list[np.ndarray]:
    return [np.full((height, width, 3), 10 * number, np.uint8) for number in range(count)]


def reel(*frames: bytes, fps: float = 2.0) -> bytes:
    return Reel(tuple(frames), fps).pack()


def refused(data: bytes, read=decode_video) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(data, lambda clip: range(clip.frames), PARAM)
    assert caught.value.message.startswith(PARAM)
    return caught.value


def test_frames_of_any_format_are_those_of_one_video():
    """In their order, at ``number / fps``, each as it would be decoded by itself."""
    kinds = ["PNG", "JPEG", "WEBP", "GIF", "BMP"]
    files = [encoded(pixels, kind) for pixels, kind in zip(pictures(), kinds, strict=True)]

    video = decode_video(reel(*files, fps=4.0), lambda clip: (0, 1, 3), PARAM)

    assert (video.clip.frames, video.clip.fps, video.clip.duration_s) == (5, 4.0, 1.25)
    assert (video.clip.width, video.clip.height) == (8, 6)
    assert video.times_s == (0.0, 0.25, 0.75)
    for taken, number in zip(video.frames, (0, 1, 3), strict=True):
        assert np.array_equal(taken, decode_image(files[number], PARAM))


def test_what_is_planned_is_what_is_decoded():
    """From headers alone."""
    data = reel(*(encoded(one, "PNG") for one in pictures()))
    planned, made = (read(data, lambda clip: (1, 4), PARAM) for read in (outline_video, decode_video))

    assert (planned.clip, planned.indices, planned.times_s) == (made.clip, made.indices, made.times_s)
    assert planned.frames.shape == made.frames.shape


def test_a_frame_that_is_not_wanted_is_not_decoded():
    """Its header is looked at; damage behind it is nobody's business."""
    good, other = (encoded(one, "PNG") for one in pictures(2))
    data = reel(good, other[:60] + other[-4:], good)

    assert decode_video(data, lambda clip: (0, 2), PARAM).indices == (0, 2)
    assert refused(data).param == f"{PARAM}.frames[1]"


@pytest.mark.parametrize("read", [decode_video, outline_video])
def test_frames_of_two_sizes_are_refused_with_both(read):
    """Nobody knows which one was meant."""
    small, large = encoded(pictures()[0], "PNG"), encoded(pictures(height=7)[0], "PNG")

    error = refused(reel(small, small, large), read)

    assert error.code == "unsuitable_video"
    assert error.message == f"{PARAM}.frames[2] is 8x7 pixels, the first frame 8x6"


def test_a_frame_that_is_no_picture_is_named():
    """By its place in the list."""
    error = refused(reel(encoded(pictures()[0], "PNG"), b"#EXTM3U"))

    assert (error.code, error.param) == ("unsupported_image", f"{PARAM}.frames[1]")


def test_a_list_that_lasts_too_long_is_refused():
    """As any video."""
    assert refused(reel(encoded(pictures()[0], "PNG"), fps=1e-4)).code == "video_too_long"


@pytest.mark.parametrize(
    "fields", [[], [2.0], [2.0, []], [2.0, "x"], [2.0, [1]], [0.0, [b"x"]], [float("nan"), [b"x"]], {}, [2, [b"x"]]]
)
def test_what_is_not_joined_by_us_is_refused(fields):
    """Somebody may send a file that begins as ours do."""
    magic = Reel((), 1.0).pack()[:8]

    assert is_reel(magic)
    assert refused(magic + msgpack.packb(fields)).code == "damaged_video"
    assert refused(magic).code == "damaged_video"


def test_the_digest_is_of_files_order_and_rate():
    """Whatever changes the video changes its bytes, and the same list always has the same."""
    assert len({reel(b"a", b"b"), reel(b"b", b"a"), reel(b"ab"), reel(b"a", b"b", fps=3.0), reel(b"a", b"b")}) == 4
