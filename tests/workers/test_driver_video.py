"""A video on its way through a worker: its frames, its errors, and what the cache knows it by."""

from dataclasses import replace

import numpy as np
import pytest

from forebay import ConfigurationError, Modality, ModelSource, Processor, Prompt
from forebay.plugins import load_processor
from forebay.task import Kind
from handoff.pool import FeatureCache
from tests.support.toys import Cinema
from tests.support.videos import encoded, shade_of, shades
from workers import loader

pytestmark = pytest.mark.service
CLIP = encoded(shades(6))


class Watched(Cinema):
    """Keeps what it was given."""

    def __init__(self, model):
        super().__init__(model)
        self.seen = []

    def process_item(self, media, work):
        self.seen.append((media, media.frames[:, 0, 0, 0].tolist()))
        return super().process_item(media, work)


@pytest.fixture
def cinema():
    return Watched(ModelSource("toy"))


def sent(node, driver, rid="r1", data=CLIP, **extensions):
    """What becomes of a request about one video."""
    reference = node.reference(data, Modality.VIDEO, "video_data[0]")
    body = {"prompt": Prompt(ids=(1, 9, 2)), "extensions": extensions, "kind": Kind.PREPROCESS}
    driver.run(node.task(reference, rid=rid, token=f"t-{rid}", **body))
    return node.way.record(rid)


def test_a_video_becomes_the_frames_that_its_family_asks_for(node, cinema):
    """Sampled by the extension map, decoded, processed, and its placeholder expanded."""
    result = sent(node, node.driver(cinema), multimodal_frames=4).result

    [item] = result["items"]
    assert (item["modality"], item["model_specific_data"]) == ("video", {"frames": [0, 1, 2, 3]})
    assert result["input_ids"] == [1, 9, 9, 9, 9, 2]
    [(_, greys)] = cinema.seen
    assert greys == pytest.approx([shade_of(number) for number in range(4)], abs=2)


def test_a_processor_gets_frames_their_times_and_what_the_clip_is(node, cinema):
    """As the contract says: uint8, rows by columns by colours, times in seconds."""
    sent(node, node.driver(cinema))

    [(media, _)] = cinema.seen
    assert (media.frames.dtype, media.frames.shape) == (np.uint8, (2, 48, 64, 3))
    assert media.times_s == (0.0, pytest.approx(1 / 30))
    assert (media.clip.frames, media.clip.fps, media.sampled_fps) == (6, 30.0, 10.0)
    assert media.param == "video_data[0]"


def test_a_choice_that_is_refused_names_the_item(node, cinema):
    """In the family's own words."""
    problem = sent(node, node.driver(cinema), multimodal_frames=7).problem

    assert (problem.code, problem.param) == ("unsuitable_video", "video_data[0]")
    assert problem.message == "7 frames of a video with 6"


@pytest.mark.parametrize("wanted", [(), (3, 6), (-1, 2), (4, 2)])
def test_frames_that_are_not_there_are_the_processors_mistake(node, wanted):
    """At least one, ascending, and within the clip."""

    class Blind(Cinema):
        def sample_frames(self, clip, extensions):
            return wanted

    problem = sent(node, node.driver(Blind(ModelSource("toy")))).problem

    assert (problem.code, problem.status) == ("invalid_result", 500)
    assert "of a video with 6" in problem.message


def test_the_choice_of_frames_is_part_of_what_the_cache_knows(node, cinema):
    """Another choice is another entry; a default that is spelled out and a field that no item reads are not."""
    driver = node.driver(cinema, cached=True)
    FeatureCache(node.pool).set_budget(1 << 19)
    wanted = [{"multimodal_frames": 2}, {"multimodal_note": "x"}, {"multimodal_frames": 3}, {"multimodal_frames": 3}]

    told = [sent(node, driver, f"r{number}", **one).result["items"][0] for number, one in enumerate(wanted)]

    assert [item["cached"] for item in told] == [False, True, False, True]
    assert [len(item["model_specific_data"]["frames"]) for item in told] == [2, 2, 3, 3]


def test_who_takes_videos_says_which_frames(monkeypatch):
    """Found out when the processor is loaded, not with the first request."""

    class Forgetful(Cinema):
        sample_frames = Processor.sample_frames

    class Point:
        name, group, value, dist = "cinema", "forebay.processors", "toys:Forgetful", None

        def load(self):
            return Forgetful

    monkeypatch.setattr("forebay.plugins.entry_points", lambda group: [Point()])

    with pytest.raises(ConfigurationError, match="takes videos, but has no sample_frames"):
        load_processor(ModelSource("cinema"))


def test_seconds_a_group_outlive_the_cache(node):
    """C047: what a model is told of a video's time is a fraction, and comes back as it went."""

    class Timed(Cinema):
        def process_item(self, media, work):
            made = super().process_item(media, work)
            return replace(made, model_specific={"second_per_grid_ts": 1 / 3, "timestamps": [0.25, 1.5]})

    driver = node.driver(Timed(ModelSource("toy")), cached=True)
    FeatureCache(node.pool).set_budget(1 << 19)

    told = [sent(node, driver, rid).result["items"][0] for rid in ("made", "found")]

    assert [item["cached"] for item in told] == [False, True]
    for item in told:
        assert item["model_specific_data"] == {"second_per_grid_ts": 1 / 3, "timestamps": [0.25, 1.5]}


def broken() -> bytes:
    """A third of a clip is missing; no frame of it is small."""
    frames = [np.random.default_rng(seed).integers(0, 255, (48, 64, 3), np.uint8) for seed in range(12)]
    data = encoded(frames, container={"movflags": "faststart"})
    return data[: len(data) * 2 // 3]


def test_a_damaged_video_is_refused_unless_the_deployment_salvages(node, cinema):
    """Off by default, with both numbers; where it is on, the item says what was there and what was announced."""
    data = broken()
    problem = sent(node, node.driver(cinema), "off", data).problem
    for cached in (False, True):
        driver = replace(node.driver(cinema, cached=cached), video_salvage=True)

        [item] = sent(node, driver, f"on-{cached}", data).result["items"]

        told = item["model_specific_data"]
        assert (told["frames"], told["announced_frames"]) == ([0, 1], 12)
        assert 4 <= told["salvaged_frames"] < 12
        assert f": {told['salvaged_frames']} of 12 frames could be decoded" in problem.message

    assert problem.code == "damaged_video"


def test_what_was_salvaged_serves_none_who_wants_whole_videos(node, cinema):
    """It stays in the pool under another key; and a whole one says nothing of it."""
    salvaging = replace(node.driver(cinema, cached=True), video_salvage=True)
    FeatureCache(node.pool).set_budget(1 << 19)
    data = broken()
    assert sent(node, salvaging, "first", data).result["items"][0]["cached"] is False
    [again] = sent(node, salvaging, "second", data).result["items"]
    assert (again["cached"], again["model_specific_data"]["announced_frames"]) == (True, 12)

    assert sent(node, node.driver(cinema, cached=True), "third", data).problem.code == "damaged_video"
    assert sent(node, salvaging, "whole").result["items"][0]["model_specific_data"] == {"frames": [0, 1]}


class Whole(Cinema):
    """Wants every frame."""

    def sample_frames(self, clip, extensions):
        return range(clip.frames)


def test_a_video_whose_frames_are_chosen_anew_takes_its_room_once(node, monkeypatch):
    """The damage shows after the first choice, which is undone: the clip has all the room of its request."""
    monkeypatch.setattr(loader, "MAX_REQUEST_PIXELS", 60 * 48 * 64)
    frames = [np.random.default_rng(seed).integers(0, 255, (48, 64, 3), np.uint8) for seed in range(60)]
    data = encoded(frames, container={"movflags": "faststart"})
    middle = len(data) // 2
    driver = replace(node.driver(Whole(ModelSource("toy"))), video_salvage=True)

    record = sent(node, driver, data=data[:middle] + bytes(3000) + data[middle + 3000 :])

    assert record.problem is None, record.problem
    told = record.result["items"][0]["model_specific_data"]
    assert len(told["frames"]) == told["salvaged_frames"] < 60


def asked(node, driver, data, rid="r1", **extensions):
    """What becomes of a request about several videos."""
    refs = [node.reference(one, Modality.VIDEO, f"video_data[{number}]") for number, one in enumerate(data)]
    body = {"prompt": Prompt(ids=(9,) * len(refs)), "extensions": extensions, "kind": Kind.PREPROCESS}
    driver.run(node.task(*refs, rid=rid, token=f"t-{rid}", **body))
    return node.way.record(rid)


class ByItem(Watched):
    """Wants one frame of the first item, two of the second."""

    def extensions_of(self, extensions, modalities, number):
        return extensions.model_copy(update={"multimodal_frames": number + 1})


@pytest.mark.parametrize("cached", [False, True])
def test_what_is_said_item_by_item_is_what_each_is_made_and_known_by(node, cached):
    """The same file twice is two things, if two things are wanted of it; with the cache and without."""
    driver = node.driver(ByItem(ModelSource("toy")), cached=cached)
    if cached:
        FeatureCache(node.pool).set_budget(1 << 19)

    plain = asked(node, driver, [CLIP, CLIP])
    again = asked(node, driver, [CLIP, CLIP], rid="r2", multimodal_frames=5)

    for told in (plain, again):
        assert [item["model_specific_data"]["frames"] for item in told.result["items"]] == [[0], [0, 1]], told.problem
    assert [item["cached"] for item in again.result["items"]] == [cached, cached]


@pytest.fixture
def decodings(monkeypatch):
    """The places of all videos that are decoded."""
    places, decode = [], loader.decode_video

    def count(data, choose, param, **more):
        places.append(param)
        return decode(data, choose, param, **more)

    monkeypatch.setattr(loader, "decode_video", count)
    return places


@pytest.mark.parametrize("cached", [False, True])
def test_the_same_bytes_twice_are_decoded_once(node, cinema, decodings, cached):
    """With the cache and without; each item has its own place all the same."""
    told = asked(node, node.driver(cinema, cached=cached), [CLIP, CLIP])

    assert len(decodings) == 1
    first, second = told.result["items"]
    assert first["feature"]["sha256"] == second["feature"]["sha256"]
    if not cached:
        assert [media.param for media, _ in cinema.seen] == ["video_data[0]", "video_data[1]"]
