"""Videos become the frames that are asked for, the right way up, at the times at which a player shows them."""

import io
import os

import av
import numpy as np
import pytest
from PIL import Image as Pillow

from forebay import Rejected
from tests.support.media import package_file
from tests.support.videos import encoded, shade_of, shades
from workers.decode import DECODERS_VERSION
from workers.decode.video import Sampled, decode_video, outline_video

KINDS = [
    *[("libx264", "mp4"), ("libx264", "mov"), ("libx264", "matroska"), ("libx264", "avi"), ("libx265", "mp4")],
    *[("libsvtav1", "mp4"), ("libsvtav1", "webm"), ("libvpx", "webm"), ("libvpx-vp9", "webm")],
    *[("mpeg4", "avi"), ("mpeg4", "mp4"), ("mjpeg", "avi"), ("gif", "gif")],
]


def every(clip):
    """A family that wants all frames."""
    return range(clip.frames)


def decoded(data: bytes, *indices: int) -> Sampled:
    return decode_video(data, lambda clip: indices or range(clip.frames), "video_data[1]")


def numbers(video: Sampled) -> list[int]:
    """Which of ``shades`` the frames are, by their grey."""
    return [round((float(frame.mean()) - shade_of(0)) / 8) for frame in video.frames]


def webp(count: int = 3, **options: object) -> bytes:
    """An animation of reds, half transparent, shown for 100, 50 and 200 ms."""
    file = io.BytesIO()
    first, *others = (Pillow.new("RGBA", (8, 6), (100 * number, 0, 0, 128)) for number in range(count))
    first.save(file, "WEBP", save_all=True, append_images=others, duration=[100, 50, 200], lossless=True, **options)
    return file.getvalue()


@pytest.mark.parametrize(("codec", "kind"), KINDS)
def test_exactly_the_frames_that_are_asked_for_are_there(codec, kind):
    """By their number in the order of presentation, whatever codec and container."""
    video = decoded(encoded(shades(10), codec, kind), 0, 3, 4, 9)

    assert numbers(video) == [0, 3, 4, 9]
    assert video.indices == (0, 3, 4, 9)
    assert (video.frames.shape, video.frames.dtype) == ((4, 48, 64, 3), np.uint8)
    assert video.clip.frames == 10
    assert video.times_s == pytest.approx([0, 0.1, 0.1333, 0.3], abs=0.005)


def test_encoding_leaves_nobody_in_real_time():
    """For root, one codec takes the highest priority that there is, and would pass it on to all that tests start."""
    before = os.sched_getscheduler(0)

    encoded(shades(2), "libsvtav1")

    assert os.sched_getscheduler(0) == before


def test_a_frame_that_is_asked_for_twice_is_there_twice():
    """A family may repeat one; it is decoded once."""
    assert numbers(decoded(encoded(shades(5)), 1, 1, 3, 3)) == [1, 1, 3, 3]


@pytest.mark.parametrize(("codec", "kind"), [("libx264", "mp4"), ("libx264", "matroska"), ("libvpx-vp9", "webm")])
def test_a_variable_rate_keeps_its_true_times(codec, kind):
    """A time is what the file says, never the number divided by an average."""
    video = decoded(encoded(shades(5), codec, kind, times_ms=[0, 100, 150, 400, 1000]))

    assert numbers(video) == [0, 1, 2, 3, 4]
    assert video.times_s == (0, 0.1, 0.15, 0.4, 1.0)
    assert video.clip.fps == pytest.approx(5 / video.clip.duration_s)


def test_times_begin_when_the_file_does():
    """A stream whose clock starts late, or whose first frames are held back for reordering, is shown at once."""
    video = decoded(encoded(shades(5), times_ms=[500, 600, 700, 800, 900]))

    assert video.times_s == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert (video.clip.fps, video.clip.duration_s) == (pytest.approx(10), pytest.approx(0.5))


def trimmed(data: bytes, frames: int) -> bytes:
    """The same, with an edit list that begins so many frames later; all of them stay in the file."""
    file = io.BytesIO()
    options = {"avoid_negative_ts": "disabled", "use_editlist": "1"}
    with av.open(io.BytesIO(data)) as old, av.open(file, "w", format="mp4", options=options) as new:
        [source] = old.streams.video
        stream = new.add_stream_from_template(source)
        for packet in old.demux(source):
            if packet.size:
                packet.pts, packet.dts = (at - frames * packet.duration for at in (packet.pts, packet.dts))
                packet.stream = stream
                new.mux(packet)
    return file.getvalue()


def test_what_an_edit_list_cuts_away_is_not_there():
    """Frames are numbered among those that are shown, though the first of them need others to be decoded."""
    video = decoded(trimmed(encoded(shades(10), g="30", bf="0"), 4))

    assert (video.clip.frames, numbers(video)) == (6, [4, 5, 6, 7, 8, 9])
    assert video.times_s == pytest.approx([number / 30 for number in range(6)])


@pytest.mark.parametrize(("codec", "kind"), [("libx264", "mp4"), ("libvpx", "webm"), ("gif", "gif")])
def test_a_clip_of_one_frame_is_a_clip(codec, kind):
    """C022: it lasts as long as a frame does."""
    video = decoded(encoded(shades(1), codec, kind))

    assert (video.clip.frames, numbers(video), video.times_s) == (1, [0], (0.0,))
    assert video.clip.fps > 0


def test_frames_are_counted_where_the_header_does_not_say():
    """C027: VP8 in WebM as it is streamed, without a length or a number."""
    video = decoded(encoded(shades(5), "libvpx", "webm", container={"live": "1"}))

    assert (video.clip.frames, video.clip.fps, numbers(video)) == (5, 30.0, [0, 1, 2, 3, 4])


def test_frames_that_are_only_predicted_from_are_not_counted():
    """VP8 has them in packets of their own."""
    frames = [np.roll(frame, number, axis=1) for number, frame in enumerate(shades(60))]
    options = {"auto-alt-ref": "1", "lag-in-frames": "16", "b": "100k"}

    assert decoded(encoded(frames, "libvpx", "webm", **options), 59).clip.frames == 60


@pytest.mark.parametrize(
    ("matrix", "size", "corner", "rotation"),
    [
        (0, (48, 64), (0, 0), 0),
        (-90, (64, 48), (0, -1), 90),
        (90, (64, 48), (-1, 0), 270),
        (180, (48, 64), (-1, -1), 180),
    ],
)
def test_the_display_matrix_is_applied_once(matrix, size, corner, rotation):
    """C029: a marked corner lies where a player shows it, and sizes are those of the upright frame."""
    marked = np.zeros((48, 64, 3), np.uint8)
    marked[:16, :16] = (255, 0, 0)

    video = decoded(encoded([marked] * 3, rotation=matrix), 1)

    y, x = (3 if side == 0 else -4 for side in corner)
    assert video.frames.shape[1:3] == size == (video.clip.height, video.clip.width)
    assert video.frames[0, y, x, 0] > 200
    assert sum(int(video.frames[0, y, x, 0] > 200) for y in (3, -4) for x in (3, -4)) == 1
    assert video.clip.rotation == rotation


def test_an_animated_webp_is_a_video():
    """Every frame drawn in full, on white, at the times that the file says."""
    video = decoded(webp(), 0, 2)

    assert video.frames[:, 0, 0].tolist() == [[127, 127, 127], [227, 127, 127]]
    assert (video.times_s, video.clip.frames, video.clip.duration_s) == ((0, 0.15), 3, 0.35)


def test_a_gif_is_a_video():
    """One of a package's, with a transparent ground and a palette that changes."""
    data = package_file("skimage", "data/no_time_for_that_tiny.gif").read_bytes()

    video = decoded(data)

    with Pillow.open(io.BytesIO(data)) as image:
        assert (video.clip.frames, video.clip.width, video.clip.height) == (image.n_frames, *image.size)
        for number in (0, 7, 23):
            image.seek(number)
            assert np.array_equal(video.frames[number], np.asarray(image.convert("RGB")))
    assert video.times_s[1] == 0.07


@pytest.mark.parametrize("data", [encoded(shades(7)), encoded(shades(7), "libvpx", "webm"), webp()])
def test_an_outline_is_what_will_be_decoded(data):
    """Count, size, times; no pixel of it is there."""
    outline, video = outline_video(data, every, "v"), decoded(data)

    assert (outline.clip, outline.indices, outline.times_s) == (video.clip, video.indices, video.times_s)
    assert outline.frames.shape == video.frames.shape
    assert outline.frames.strides == (0, 0, 0, 0)


def test_the_decoders_version_is_that_of_the_library_too():
    """So that another one's pixels are another entry of the cache."""
    assert " av 18." in DECODERS_VERSION


def test_what_the_choice_refuses_is_refused():
    """A family's own words reach the caller."""

    def choose(clip):
        raise Rejected("unsuitable_video", f"{clip.frames} frames are too few")

    with pytest.raises(Rejected, match="7 frames are too few"):
        decode_video(encoded(shades(7)), choose, "v")
