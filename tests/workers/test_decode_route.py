"""A sparse sample decodes less than everything, and every frame of it is what decoding everything gives, to the bit."""

import io
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import av
import numpy as np
import pytest

from tests.support.videos import encoded
from workers.decode import decode_video, route
from workers.decode import video as decoding
from workers.decode.entry import NotSoundError, entry_test
from workers.decode.route import Route
from workers.decode.scan import scan_video

COUNT = 60
PARAM = "video_data"
SEPARATE = {"g": "10", "bf": "3", "sc_threshold": "0"}


def moving(count: int = COUNT, height: int = 48, width: int = 64) -> list[np.ndarray]:
    """Noise that moves, so that every frame needs what it is predicted from."""
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    return [np.roll(noise, (number, 2 * number), axis=(0, 1)) // 2 + number for number in range(count)]


def x265(text: str) -> dict[str, str]:
    return {"x265-params": f"log-level=none:{text}"}


UNEVEN = [40 * number + 7 * (number % 3) for number in range(COUNT)]
ROUTED = {
    "h264, B-frames": ("libx264", "mp4", SEPARATE),
    "h264, matroska": ("libx264", "matroska", SEPARATE),
    "h264, one set of references": ("libx264", "mov", {**SEPARATE, "refs": "5", "x264-params": "b-pyramid=normal"}),
    "h264, uneven": ("libx264", "matroska", {**SEPARATE, "times_ms": UNEVEN}),
    "h264, fragments": ("libx264", "mp4", {**SEPARATE, "container": {"movflags": "frag_keyframe+empty_moov"}}),
    "h264, turned": ("libx264", "mp4", {**SEPARATE, "rotation": 90}),
    "hevc": ("libx265", "mp4", x265("keyint=10:min-keyint=10:scenecut=0:bframes=3:open-gop=0")),
    "hevc, open": ("libx265", "mp4", x265("keyint=10:min-keyint=10:scenecut=0:bframes=3:open-gop=1")),
    "vp8": ("libvpx", "webm", {"g": "10", "auto-alt-ref": "1", "lag-in-frames": "16"}),
    "vp9": ("libvpx-vp9", "webm", {"g": "10", "auto-alt-ref": "1", "lag-in-frames": "16"}),
    "vp9, mp4": ("libvpx-vp9", "mp4", {"g": "10"}),
    "av1": ("libsvtav1", "mp4", {"g": "10", "preset": "10"}),
    "av1, webm": ("libsvtav1", "webm", {"g": "10", "preset": "10"}),
}
THROUGH = {
    "h264, open": ("libx264", "mp4", {**SEPARATE, "x264-params": "open-gop=1:keyint=10:bframes=3"}),
    "h264, refreshed piece by piece": (
        "libx264",
        "mp4",
        {"x264-params": "intra-refresh=1:keyint=10:bframes=0:scenecut=0"},
    ),
    "h264, one key frame": ("libx264", "mp4", {"g": "300", "sc_threshold": "0"}),
    "h264, avi": ("libx264", "avi", SEPARATE),
    "mpeg4": ("mpeg4", "mp4", {"g": "10"}),
}
SAMPLES = [(0,), (9,), (10,), (11,), (59,), (5, 6, 7), (8, 9, 10, 11), (0, 29, 30, 31, 59), (3, 3, 44, 44), (7, 27, 47)]


def made(kind: tuple) -> bytes:
    codec, container, options = kind
    return encoded(moving(), codec, container, **options)


def all_frames(data: bytes) -> np.ndarray:
    return decode_video(data, lambda clip: range(clip.frames), PARAM).frames


@pytest.fixture
def given(monkeypatch):
    """How many packets were given to decoders on the way of a route, and how often everything was decoded instead."""
    counted = {"routed": 0, "through": 0}
    take, pictures = decoding._take_routed, decoding._pictures

    def routed(*args):
        counted["routed"] += 1
        return take(*args)

    def through(*args):
        counted["through"] += 1
        return pictures(*args)

    monkeypatch.setattr(decoding, "_take_routed", routed)
    monkeypatch.setattr(decoding, "_pictures", through)
    return counted


@pytest.mark.parametrize("name", ROUTED)
def test_a_sparse_sample_is_bit_equal_to_decoding_everything(name, given):
    """At key frames, before and behind them, frames twice; and never by decoding everything after all."""
    data = made(ROUTED[name])
    everything = all_frames(data)
    given.update(routed=0, through=0)

    for indices in SAMPLES:
        taken = decode_video(data, lambda clip, indices=indices: indices, PARAM)
        assert np.array_equal(taken.frames, everything[list(indices)]), indices

    assert len(everything) == COUNT
    assert given["routed"] == 6
    assert given["through"] == len(SAMPLES) - given["routed"]


@pytest.mark.parametrize("name", THROUGH)
def test_what_cannot_be_trusted_is_decoded_through(name, given):
    """Frames behind a key frame that may need earlier ones, containers that do not tell times, and nothing to gain."""
    data = made(THROUGH[name])
    everything = all_frames(data)

    for indices in SAMPLES:
        taken = decode_video(data, lambda clip, indices=indices: indices, PARAM)
        assert np.array_equal(taken.frames, everything[list(indices)]), indices

    assert given["routed"] == 0


def test_only_what_is_needed_is_decoded(monkeypatch):
    """One frame of the last group: some of its ten packets, of sixty."""
    data, fed = made(ROUTED["h264, B-frames"]), []
    scan = scan_video(data, PARAM)
    open_video = decoding.open_video

    class Counting:
        def __init__(self, packet):
            self._packet, self.size = packet, packet.size

        def decode(self):
            fed.append(self.size)
            return self._packet.decode()

    @contextmanager
    def counted(data, param):
        with open_video(data, param) as (container, stream):
            yield SimpleNamespace(demux=lambda stream: map(Counting, container.demux(stream))), stream

    monkeypatch.setattr(route, "open_video", counted)
    [(number, _)] = route.routed_frames(data, scan.route, [52], PARAM)

    assert number == 52
    assert 3 <= len(fed) <= 10


def test_an_edit_list_that_leaves_out_a_group_is_followed(tmp_path):
    """The demuxer leaves out the first group, and the file is not cut for that; numbers are of what is shown."""
    plain = made(ROUTED["h264, B-frames"])
    path = tmp_path / "cut.mp4"
    with av.open(io.BytesIO(plain)) as source, av.open(str(path), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        base = source.streams.video[0].time_base
        for packet in source.demux(source.streams.video[0]):
            if packet.size:
                packet.pts, packet.dts = packet.pts - int(0.5 / base), packet.dts - int(0.5 / base)
                packet.stream = stream
                out.mux(packet)
    data = path.read_bytes()
    everything = all_frames(data)

    assert len(everything) == 45
    for indices in ((0,), (44,), (3, 20, 33)):
        taken = decode_video(data, lambda clip, indices=indices: indices, PARAM)
        assert np.array_equal(taken.frames, everything[list(indices)]), indices


def test_a_container_that_lies_about_key_frames_is_not_believed():
    """What a packet is stands in the packet."""
    test = entry_test("h264", b"\x01\x64\x00\x1f\xff")

    assert test(memoryview(b"\0\0\0\2\x65\x88"))
    assert not test(memoryview(b"\0\0\0\2\x41\x9a"))  # a slice that is no IDR, whatever flag it has
    assert not test(memoryview(b"\0\0\0\2\x06\x05\0\0\0\2\x41\x9a"))  # nor behind a recovery point


@pytest.mark.parametrize(
    "packets",
    [
        [b"\0\0\0\2\x65\x88", b"\0\0\0\2\x67\x64\0\0\0\2\x41\x9a"],  # a set in the middle
        [b"\0\0\0\2\x67\x64\0\0\0\2\x65\x88", b"\0\0\0\2\x65\x88"],  # a set that later entries lack
        [b"\0\0\0\2\x67\x64\0\0\0\2\x65\x88", b"\0\0\0\2\x67\x65\0\0\0\2\x65\x88"],  # another set
        [b"\0\0\0\x09\x65\x88"],  # a unit that is longer than its packet
    ],
)
def test_parameter_sets_that_come_and_go_make_a_stream_unsound(packets):
    """Who begins in the middle would decode by others."""
    test = entry_test("h264", b"\x01\x64\x00\x1f\xff")

    with pytest.raises(NotSoundError):
        [test(memoryview(packet)) for packet in packets]


def test_a_frame_shown_before_a_key_frame_begins_at_an_earlier_one():
    """It stands behind it in the file, and may be predicted from both sides of it."""
    found = Route.of([(0, 0), (1, 10), (2, 40), (3, 20), (4, 30), (5, 50)], [(0, 0), (2, 40)])

    assert [found.entry_for(rank, time) for rank, time in enumerate(sorted(found.ranks))] == [0, 0, 0, 0, 2, 2]


def test_without_a_choice_there_is_no_route():
    """One entry, none at the beginning, or frames that share a time."""
    assert Route.of([(0, 0), (1, 1)], [(0, 0)]) is None
    assert Route.of([(0, 0), (1, 1), (2, 2)], [(1, 1), (2, 2)]) is None
    assert Route.of([(0, 0), (1, 1), (2, 1)], [(0, 0), (1, 1)]) is None


def test_what_does_not_come_out_as_promised_is_decoded_through(monkeypatch, given):
    """A route that is wrong costs time, and nothing else."""
    data = made(ROUTED["h264, B-frames"])
    everything, scan = all_frames(data), scan_video(data, PARAM)
    wrong = replace(scan.route, ranks={time + 1: rank for time, rank in scan.route.ranks.items()})
    monkeypatch.setattr(decoding, "scan_video", lambda data, param: replace(scan, route=wrong))
    given.update(routed=0, through=0)

    taken = decode_video(data, lambda clip: (10, 59), PARAM)

    assert np.array_equal(taken.frames, everything[[10, 59]])
    assert given == {"routed": 1, "through": 1}
