"""Features that came instead of media: taken for the processor's own when they are what it would have made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forebay import Capabilities, DType, Modality, ModelSource, Planned, Prompt
from forebay.errors import Problem
from forebay.features import Normalisation
from forebay.task import Kind
from forebay.ticket import Ticket
from handoff.pool import FeatureCache
from handoff.ready_made import SentFeature
from tests.support.caching import entries
from tests.support.media import encoded, plain_png
from tests.support.toys import AUDIO_TOKEN, VIDEO_TOKEN, Cinema, Toy
from tests.support.videos import encoded as encoded_video

pytestmark = pytest.mark.service

VALUES = np.arange(9, dtype=np.float32).reshape(3, 3)
SIZES = {"height": 3, "width": 2}


class Foreseeing(Toy):
    """A toy that says what it will make."""

    def __init__(self):
        super().__init__(ModelSource("toy"))

    def plan_item(self, media):
        rows = self._rows(media)
        return Planned((rows, 3), DType.FLOAT32, rows, {"rows": rows})


class TakesOver(Foreseeing):
    """Whose flow nobody but itself knows."""

    def process(self, work, tokenizer):
        return super().process(work, tokenizer)


class ReadsThePrompt(Foreseeing):
    """What it makes of an item may depend on the words around it."""

    def capabilities(self) -> Capabilities:
        told = super().capabilities()
        return Capabilities(told.modalities, told.placeholders, told.extensions, rows_per_token=1, vocabulary=1000)


def packed(values=VALUES, sizes=None, dtype=DType.FLOAT32) -> bytes:
    return SentFeature(dtype, values.shape, sizes or SIZES).pack(values.tobytes())


def ticket_of(node, message, driver) -> Ticket:
    driver.run(message)
    assert node.way.state() == "parked", node.way.record().problem
    return Ticket.unpack(node.way.claim()[0].ticket)


def feature_of(node, ticket, number=0):
    item = ticket.items[number]
    return node.pool.take(ticket.blocks[item.feature.block]).array(item.feature)


def refused(node, data: bytes, driver, modality=Modality.IMAGE, **body) -> Problem:
    prompt = Prompt(ids=(1, {Modality.IMAGE: 7, Modality.AUDIO: AUDIO_TOKEN, Modality.VIDEO: VIDEO_TOKEN}[modality]))
    driver.run(node.task(node.reference(data, modality), **{"prompt": prompt, **body}))
    assert node.pool.blocks() == []
    record = node.way.record()
    assert record.problem is not None, record.state
    return record.problem


@pytest.mark.parametrize("cached", [False, True])
def test_one_stands_where_the_processors_own_would(node, cached):
    """Tokens, spans and what the model reads beside them follow from the size that was told."""
    FeatureCache(node.pool).set_budget(1 << 19)
    picture = node.reference(plain_png(2, 1))
    message = node.task(picture, node.reference(packed()), picture)

    ticket = ticket_of(node, message, node.driver(Foreseeing(), cached=cached))

    assert feature_of(node, ticket, 1).tolist() == VALUES.tolist()
    assert [item.tokens for item in ticket.items] == [1, 3, 1]
    assert ticket.items[1].model_specific == {"rows": 3}
    assert [(span.first, span.last) for item in ticket.items for span in item.spans] == [(1, 1), (2, 4), (5, 5)]


def test_one_is_kept_like_what_was_made_and_apart_from_it(node):
    """By its own bytes."""
    FeatureCache(node.pool).set_budget(1 << 19)
    driver = node.driver(Foreseeing(), cached=True)
    ticket_of(node, node.task(node.reference(packed()), node.reference(plain_png(2, 3))), driver)

    assert len(entries(node)) == 2


def test_videos_and_recordings_too(node):
    """A video's frames are chosen by its length, as if it had been decoded."""
    rows = np.ones((2, 3), np.float32)
    data = packed(rows, {"frames": 9, "fps": 3.0, "height": 4, "width": 4})
    message = node.task(node.reference(data, Modality.VIDEO), prompt=Prompt(ids=(1, VIDEO_TOKEN)))

    ticket = ticket_of(node, message, node.driver(Cinema(ModelSource("toy"))))

    assert ticket.items[0].model_specific == {"frames": [0, 1]}
    assert feature_of(node, ticket).tolist() == rows.tolist()


def test_a_recording_of_another_length_is_refused(node):
    """With both shapes."""
    problem = refused(node, packed(VALUES, {"samples": 16000}), node.driver(Foreseeing()), Modality.AUDIO)

    assert problem.code == "invalid_precomputed"
    assert "float32 [3, 3]; of a recording of 16000 samples this model has float32 [2, 3]" in problem.message


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            packed(VALUES[:2]),
            "image_data: the feature is float32 [2, 3]; of a picture 3 high and 2 wide this model has",
        ),
        (packed(VALUES.astype(np.int64), dtype=DType.INT64), "the feature is int64 [3, 3]"),
        (packed(VALUES.reshape(9, 1)), "the feature is float32 [9, 1]"),
        (packed(VALUES * np.float32("nan")), "image_data: the feature holds NaN or infinity"),
    ],
    ids=["rows", "dtype", "axes", "nan"],
)
def test_what_the_processor_would_not_make_is_the_callers_mistake(node, cached, data, said):
    """A 400, not a fault of the processor; nothing is kept."""
    FeatureCache(node.pool).set_budget(1 << 19)

    problem = refused(node, data, node.driver(Foreseeing(), cached=cached))

    assert (problem.status, problem.code, problem.param) == (400, "invalid_precomputed", "image_data")
    assert said in problem.message
    assert entries(node) == []


@pytest.mark.parametrize(
    ("processor", "said"),
    [
        (Toy(ModelSource("toy")), "it does not foresee them"),
        (TakesOver(), "it does not make items by themselves"),
        (ReadsThePrompt(), "it does not make items by themselves"),
    ],
    ids=["unforeseen", "own flow", "reads the prompt"],
)
def test_a_processor_whose_items_nobody_can_judge_takes_none(node, processor, said):
    """By the model's name."""
    problem = refused(node, packed(), node.driver(processor))

    assert problem.code == "precomputed_unsupported"
    assert said in problem.message


def test_it_is_planned_by_its_size(node):
    """``/v1/plan`` says of it what it says of a picture of that size."""
    driver = node.driver(Foreseeing())

    driver.run(node.task(node.reference(packed()), kind=Kind.PLAN))

    [row] = node.way.record().result["items"]
    assert (row["tokens"], row["feature"]["shape"]) == (3, [3, 3])


def test_bytes_that_only_begin_like_one_end_their_request(node):
    """The API never lets one in; whoever writes to the store himself learns nothing more."""
    problem = refused(node, packed()[:12], node.driver(Foreseeing()))

    assert problem.code == "internal_error"


def test_the_same_bytes_as_a_picture_are_a_picture(node):
    """What a caller sends as a file is decoded."""
    message = node.task(node.reference(encoded(np.full((3, 2, 3), 5, np.uint8), "PNG")))

    ticket = ticket_of(node, message, node.driver(Foreseeing()))

    assert feature_of(node, ticket).tolist() == [[10, 10, 10]] * 3


class Pixels(Foreseeing):
    """Its features are bytes that a reader normalises; whether its plan says how is the test's choice."""

    feature_dtypes = (DType.UINT8,)

    def __init__(self, normalisation):
        super().__init__()
        self.model = ModelSource("toy", feature_dtype=DType.UINT8)
        self.normalisation = normalisation

    def plan_item(self, media):
        return Planned((3, 3, 1), DType.UINT8, 3, {"rows": 3}, self.normalisation)


def test_pixels_are_normalised_as_the_plan_says(node):
    """What a caller would have said of it is nobody's business."""
    pixels, told = np.arange(9, dtype=np.uint8).reshape(3, 3, 1), Normalisation((1.0,) * 3, (2.0,) * 3, 2)

    message = node.task(node.reference(packed(pixels, dtype=DType.UINT8)))
    ticket = ticket_of(node, message, node.driver(Pixels(told)))

    assert ticket.items[0].normalisation == told


def test_a_plan_that_does_not_tell_how_pixels_are_normalised_takes_none(node):
    """A reader would have nothing to go by."""
    problem = refused(node, packed(np.ones((3, 3, 1), np.uint8), dtype=DType.UINT8), node.driver(Pixels(None)))

    assert problem.code == "precomputed_unsupported"
    assert "does not tell how pixels are normalised" in problem.message


MOST = 2**31 - 1


@pytest.mark.parametrize("kind", [Kind.GENERATE, Kind.PLAN])
@pytest.mark.parametrize(
    ("modality", "sizes", "code"),
    [
        (Modality.IMAGE, {"height": MOST, "width": MOST}, "image_too_large"),
        (Modality.VIDEO, {"frames": MOST, "fps": 1000.0, "height": 4, "width": 4}, "video_too_long"),
        (Modality.VIDEO, {"frames": 4, "fps": 1e-300, "height": 4, "width": 4}, "video_too_long"),
        (Modality.VIDEO, {"frames": 4, "fps": 5e-324, "height": 4, "width": 4}, "video_too_long"),
        (Modality.VIDEO, {"frames": 4, "fps": 1.0, "height": MOST, "width": MOST}, "video_too_large"),
        (Modality.VIDEO, {"frames": 200_000, "fps": 60.0, "height": 4000, "width": 4000}, "video_too_large"),
    ],
)
def test_sizes_are_held_to_the_limits_of_media(node, kind, modality, sizes, code):
    """Whoever says that a feature was made of more than is decoded is refused as the media would be."""
    options = {"multimodal_frames": 100_000} if sizes.get("frames") == 200_000 else {}

    driver = node.driver(Cinema(ModelSource("toy")))
    problem = refused(node, packed(VALUES, sizes), driver, modality, kind=kind, extensions=options)

    assert problem.code == code
    assert "the limit is" in problem.message


def test_a_recording_too(node):
    """Ten minutes."""
    problem = refused(node, packed(VALUES, {"samples": MOST}), node.driver(Foreseeing()), Modality.AUDIO)

    assert problem.code == "audio_too_long"


def test_a_plan_judges_the_feature(node):
    """It is refused there as it will be."""
    problem = refused(node, packed(VALUES[:2]), node.driver(Foreseeing()), kind=Kind.PLAN)

    assert problem.code == "invalid_precomputed"


class Short(Foreseeing):
    """A toy whose context is short."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), context_tokens=100)

    def layout(self, processed, modality):
        pytest.fail("laid out")


def test_a_prompt_that_is_too_long_is_refused_before_it_is_laid_out(node):
    """A layout of so many tokens would cost more than the request is worth."""
    driver = node.driver(Short())

    problem = refused(node, packed(np.ones((101, 3), np.float32), {"height": 101, "width": 1}), driver)

    assert problem.message == "the prompt has at least 101 tokens with its media; the model takes 100"


def test_beside_one_a_salvaged_video_still_says_so(node):
    """With the cache off, too."""
    frames = [np.random.default_rng(seed).integers(0, 255, (48, 64, 3), np.uint8) for seed in range(12)]
    whole = encoded_video(frames, container={"movflags": "faststart"})
    sizes = {"frames": 2, "fps": 1.0, "height": 4, "width": 4}
    refs = [
        node.reference(data, Modality.VIDEO)
        for data in (whole[: len(whole) * 2 // 3], packed(np.ones((2, 3), np.float32), sizes))
    ]
    driver = replace(node.driver(Cinema(ModelSource("toy"))), video_salvage=True)

    ticket = ticket_of(node, node.task(*refs, prompt=Prompt(ids=(1, VIDEO_TOKEN, VIDEO_TOKEN))), driver)

    assert ticket.items[0].model_specific["salvaged_frames"] > 0
    assert "salvaged_frames" not in ticket.items[1].model_specific
