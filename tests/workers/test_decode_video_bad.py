"""Videos that are refused: cut off, damaged, too large, of another kind, or pointing elsewhere."""

import io
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import av
import numpy as np
import pytest

from forebay import Rejected
from tests.support.media import encoded as picture
from tests.support.media import fox_recording
from tests.support.videos import encoded, shades
from workers.decode import video_limits
from workers.decode.video import decode_video, outline_video
from workers.unwanted import UnwantedError


def noise(count: int = 60) -> list[np.ndarray]:
    """Frames that no codec makes small, so that half of a file is about half of its frames."""
    return [np.random.default_rng(seed).integers(0, 255, (96, 128, 3), np.uint8) for seed in range(count)]


def refused(data: bytes, read=decode_video) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(data, lambda clip: range(clip.frames), "video_data[1]")
    assert caught.value.param == "video_data[1]"
    return caught.value


@pytest.fixture(scope="module")
def in_front() -> bytes:
    """60 frames, with the index before them."""
    return encoded(noise(), container={"movflags": "faststart"})


@pytest.mark.parametrize("part", [0.5, 0.9])
def test_a_file_that_is_cut_off_is_refused_with_both_numbers(in_front, part):
    """C026: also when the frames that are asked for lie before the cut."""
    cut = in_front[: int(len(in_front) * part)]

    with pytest.raises(Rejected, match=r"\d+ of 60 frames could be decoded") as caught:
        decode_video(cut, lambda clip: [0], "video_data[1]")

    decoded = int(caught.value.message.partition("damaged: ")[2].split()[0])
    assert caught.value.code == "damaged_video"
    assert 0.8 * part < decoded / 60 < part


def test_a_file_without_its_index_cannot_be_opened():
    """C026: an index that stands at the end is the first to go."""
    data = encoded(noise(10))

    assert refused(data[: len(data) * 9 // 10]).code == "damaged_video"


@pytest.mark.parametrize(
    ("codec", "kind", "container"),
    [
        ("libx264", "mp4", {"movflags": "frag_keyframe+empty_moov"}),
        *[("libvpx", "webm", {}), ("libx264", "matroska", {}), ("mpeg4", "avi", {}), ("gif", "gif", {})],
    ],
)
def test_every_container_tells_that_it_is_cut_off(codec, kind, container):
    """Those that do not number their frames tell their length, or have an end."""
    data = encoded(shades(30), codec, kind, container=container)

    assert decode_video(data, lambda clip: [0], "v").clip.frames == 30
    error = refused(data[: len(data) * 2 // 3])
    assert error.code == "damaged_video"
    assert "could be decoded" in error.message


def test_a_cut_is_told_by_a_plan_too(in_front):
    """From the index alone."""
    error = refused(in_front[: len(in_front) // 2], outline_video)

    assert (error.code, "of 60 frames" in error.message) == ("damaged_video", True)


def test_damage_in_the_middle_is_refused_with_both_numbers(in_front):
    """Never another number of frames than was announced."""
    middle = len(in_front) // 2
    error = refused(in_front[:middle] + bytes(3000) + in_front[middle + 3000 :])

    assert error.code == "damaged_video"
    assert "of 60 frames could be decoded" in error.message


def salvaged(data: bytes, choose=lambda clip: range(clip.frames)):
    return decode_video(data, choose, "video_data[1]", salvage=True)


@pytest.mark.parametrize("part", [0.5, 0.9])
def test_a_file_that_is_cut_off_may_be_taken_for_what_decodes_of_it(in_front, part):
    """C026: everything is of one shorter clip: number, rate, length, choice, times; and how much is missing."""
    cut = in_front[: int(len(in_front) * part)]
    decoded = int(refused(cut).message.partition("damaged: ")[2].split()[0])

    video = salvaged(cut, lambda clip: [0, clip.frames // 2, clip.frames - 1])

    whole = decode_video(in_front, lambda clip: [0, decoded // 2, decoded - 1], "v")
    assert (video.clip.frames, video.clip.announced_frames, video.clip.fps) == (decoded, 60, 30.0)
    assert video.clip.duration_s == pytest.approx(decoded / 30)
    assert (video.indices, video.times_s) == (whole.indices, whole.times_s)
    assert np.array_equal(video.frames, whole.frames)


def test_damage_in_the_middle_leaves_what_stands_before_it(in_front):
    """As a file that is cut off there."""
    middle = len(in_front) // 2
    damaged = in_front[:middle] + bytes(3000) + in_front[middle + 3000 :]

    video = salvaged(damaged)

    assert 20 < video.clip.frames < 40
    assert (len(video.frames), video.clip.announced_frames) == (video.clip.frames, 60)


def test_a_whole_file_is_the_same_whether_it_might_be_salvaged_or_not(in_front):
    """And says nothing of it."""
    video = salvaged(in_front)

    assert (video.clip.frames, video.clip.announced_frames) == (60, 0)


def test_what_cannot_be_opened_or_has_no_frame_is_not_salvaged(in_front):
    """Nothing is left of it."""
    no_index, no_frame = encoded(noise(3))[:-200], in_front[: in_front.index(b"mdat") + 20]

    for data in (no_index, no_frame):
        with pytest.raises(Rejected) as caught:
            salvaged(data)
        assert caught.value.code == "damaged_video"


def test_a_choice_that_needs_more_frames_than_are_left_is_refused(in_front):
    """In the family's own words, about the shorter clip."""

    def choose(clip):
        if clip.frames < 60:
            raise Rejected("unsuitable_video", f"60 frames of a video with {clip.frames}")
        return range(60)

    with pytest.raises(Rejected, match=r"60 frames of a video with \d\d"):
        salvaged(in_front[: len(in_front) // 2], choose)


def test_a_plan_of_what_is_salvaged_goes_by_its_packets(in_front):
    """It decodes nothing, so it may take a few frames for whole that are not."""
    cut = in_front[: len(in_front) // 2]

    outline = outline_video(cut, lambda clip: range(clip.frames), "v", salvage=True)

    assert 0 <= outline.clip.frames - salvaged(cut).clip.frames <= 4


def sound(kind: str = "mp4") -> bytes:
    """A tone in a container that could hold a video."""
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as out:
        stream = out.add_stream("aac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16_000
        out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        *[sound(), fox_recording().read_bytes(), picture(np.zeros((4, 4, 3), np.uint8), "PNG")],
        *[picture(np.zeros((4, 4, 3), np.uint8), "WEBP"), b"<html>404</html>", bytes(16), b"G"],
        *[encoded(shades(3), "mpeg2video", "matroska"), encoded(shades(3), "mpeg2video", "mpegts")],
    ],
)
def test_what_is_no_video_or_none_that_is_read_is_unsupported(data):
    """By its bytes; sound alone is no video, wherever it stands."""
    assert refused(data).code == "unsupported_video"


def test_nothing_is_empty():
    """As of every kind of media."""
    assert refused(b"").code == "empty_media"


@contextmanager
def listener():
    """A server on this machine that counts who comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        came: list[object] = []

        def count() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                came.append(connection.close())

        threading.Thread(target=count, daemon=True).start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)


def external(url: str) -> bytes:
    """A QuickTime file whose samples lie at a URL: its own data reference is replaced by that one."""
    data = bytearray(encoded(shades(3), kind="mov"))
    at = data.index(b"dref") - 4
    size = int.from_bytes(data[at : at + 4], "big")
    entry = b"url " + bytes(4) + url.encode() + b"\x00"
    box = b"dref" + bytes(4) + (1).to_bytes(4, "big") + (len(entry) + 4).to_bytes(4, "big") + entry
    for name in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        outer = data.rindex(name, 0, at) - 4
        longer = int.from_bytes(data[outer : outer + 4], "big") + len(box) + 4 - size
        data[outer : outer + 4] = longer.to_bytes(4, "big")
    data[at : at + size] = (len(box) + 4).to_bytes(4, "big") + box
    return bytes(data)


def test_nothing_that_a_file_names_is_opened(tmp_path):
    """No playlist, no list of parts, no reference: whatever it is called, and wherever it points."""
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(encoded(shades(3)))
    with listener() as (port, came):
        url = f"http://127.0.0.1:{port}/part.ts"
        for data in (
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{url}\n#EXT-X-ENDLIST\n".encode(),
            f"ffconcat version 1.0\nfile '{url}'\n".encode(),
            f"ffconcat version 1.0\nfile '{secret}'\n".encode(),
            b"RIFF....WAVE" + url.encode(),
            f'<?xml version="1.0"?><MPD><BaseURL>{url}</BaseURL></MPD>'.encode(),
        ):
            assert refused(data).code == "unsupported_video"
        # A reference is as good as absent: the samples are looked for in the file itself.
        assert decode_video(external(url), lambda clip: [0], "v").clip.frames == 3

    assert came == []


@pytest.mark.parametrize(
    ("limit", "value", "code", "said"),
    [
        ("MAX_DURATION_S", 0.5, "video_too_long", "lasts 2.0 s; the limit is 0 s"),
        ("MAX_FRAMES", 59, "video_too_long", "60 frames; the limit is 59"),
        ("MAX_FRAME_PIXELS", 12_287, "video_too_large", "12288 pixels; the limit is 12287"),
        ("MAX_SAMPLED_PIXELS", 100_000, "video_too_large", "are 737280 pixels; the limit is 100000"),
    ],
)
def test_what_is_too_much_is_refused_before_it_is_decoded(monkeypatch, in_front, limit, value, code, said):
    """With both numbers, from header and index; a plan says the same."""
    monkeypatch.setattr(video_limits, limit, value)
    monkeypatch.setattr("workers.decode.video._take", None)

    for read in (decode_video, outline_video):
        error = refused(in_front, read)
        assert error.code == code
        assert said in error.message


PROGRAM = """
import sys, resource
from pathlib import Path
from workers.decode.video import decode_video
data = Path(sys.argv[1]).read_bytes()
decode_video(data, lambda clip: [0], "v")  # what the library itself needs
def rss():
    return int(next(l for l in open("/proc/self/status") if l.startswith(sys.argv[2])).split()[1]) * 1024
Path("/proc/self/clear_refs").write_text("5")
before = rss()
video = decode_video(data, lambda clip: range(0, clip.frames, clip.frames // 8), "v")
print(video.clip.frames, video.frames.nbytes, rss() - before)
"""


def test_memory_is_that_of_the_frames_that_are_asked_for(tmp_path):
    """A clip that is 1.6 GB decoded costs what eight of its frames do, and a codec's few."""
    rolled = np.random.default_rng(0).integers(0, 255, (720, 1280, 3), np.uint8)
    frames = (np.roll(rolled, 4 * number, axis=1) // 4 for number in range(600))
    path = tmp_path / "long.mp4"
    path.write_bytes(encoded(frames, preset="ultrafast", crf="40"))

    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), "VmHWM"], capture_output=True, text=True, check=True
    )

    count, frames_bytes, grown = map(int, run.stdout.split())
    assert count * 720 * 1280 * 3 > 1_600_000_000
    assert frames_bytes == 8 * 720 * 1280 * 3
    assert grown < frames_bytes + 200_000_000


def test_who_is_told_to_stop_does_not_take_that_for_damage(in_front):
    """Else a part of the clip would be taken, and cached, for all that there is."""

    def stop(_clip):
        raise UnwantedError("nobody wants it")

    with pytest.raises(UnwantedError):
        salvaged(in_front, stop)
    assert not issubclass(UnwantedError, Exception)  # no codec's wrapper, and no guest, may catch it
