"""Videos of the family by hand: which frames, which grid, which tokens, which positions."""

from dataclasses import replace

import numpy as np
import pytest

from forebay import DType, Failed, Modality, ModelSource, Planned, Processed, Prompt, Rejected, Span, Work
from forebay.drive import drive_prompt, extensions_by_item, typed_extensions
from forebay.features import ids_array
from forebay.testing import check_processor, image, run_processor
from processors.qwen_vl import Qwen2VL, Qwen3VL, Qwen25VL
from processors.qwen_vl.geometry import Grid
from processors.qwen_vl.mrope import Block, positions, step_of
from processors.qwen_vl.sampling import VideoOptions
from tests.processors.films import as_video, clip, film
from tests.processors.pictures import noise

IMAGE, VIDEO, START, END = 151655, 151656, 151652, 151653
FAMILIES = [Qwen2VL, Qwen25VL, Qwen3VL]


@pytest.fixture(params=FAMILIES, ids=["qwen2-vl", "qwen2.5-vl", "qwen3-vl"])
def processor(request):
    return request.param(ModelSource("any"))


def chosen(processor, one, **options):
    """The frames that a request's options choose."""
    extensions = {f"multimodal_video_{name}": value for name, value in options.items()}
    return list(processor.sample_frames(one, typed_extensions(processor.capabilities(), extensions)))


def made(processor, video) -> Processed:
    return processor.process_item(video, Work("r", Prompt(ids=(VIDEO,)), (video,)))


@pytest.mark.parametrize(
    ("cls", "frames", "expected"),
    [
        *[(Qwen2VL, 10, [0, 2, 5, 7]), (Qwen25VL, 60, [0, 15, 30, 45])],
        *[(Qwen3VL, 10, [0, 3, 6, 9]), (Qwen3VL, 60, [0, 20, 39, 59])],
        *[(Qwen3VL, 5, [0, 1, 3, 4]), (Qwen2VL, 5, [0, 1, 2, 3]), (Qwen2VL, 3, [0, 1]), (Qwen3VL, 3, [0, 1, 2])],
    ],
)
def test_frames_are_chosen_exactly(cls, frames, expected):
    """C023, C027: at 30 a second, two a second are wanted and at least four."""
    assert chosen(cls(ModelSource("any")), clip(frames)) == expected


def test_a_clip_of_one_frame_is_taken(processor):
    """C022: whatever is wanted of it."""
    assert chosen(processor, clip(1)) == [0]
    assert chosen(processor, clip(1, fps=1), fps=0.1) == [0]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"fps": 10}, 20),
        ({"fps": 1}, 4),
        ({"fps": 1, "min_frames": 2}, 2),
        ({"fps": 30, "max_frames": 6}, 6),
        ({"num_frames": 8}, 8),
    ],
)
def test_a_request_may_say_how_many(processor, options, count):
    """Of a clip of two seconds: so many a second between two bounds, or a number."""
    assert len(chosen(processor, clip(60), **options)) == count


def test_more_frames_than_there_are_are_refused_with_both_numbers(processor):
    """C022: 16 of 9."""
    with pytest.raises(Rejected, match="16 frames are asked for, of a video that has 9") as caught:
        chosen(processor, clip(9), num_frames=16)

    assert caught.value.code == "unsuitable_video"


@pytest.mark.parametrize(
    "options", [{"fps": 0}, {"num_frames": 0}, {"fps": 2, "num_frames": 4}, {"fps": float("inf")}, {"speed": 1}]
)
def test_options_that_cannot_be_are_refused(processor, options):
    """By name, before anything is decoded."""
    with pytest.raises(Rejected) as caught:
        chosen(processor, clip(9), **options)

    assert caught.value.code == "invalid_extensions"


def test_a_list_of_rates_is_one_for_each_video(processor):
    """C030: in their order, whatever stands between them; an image has none, so it is cached whatever a video wants."""
    kinds = [Modality.VIDEO, Modality.IMAGE, Modality.VIDEO]
    said = VideoOptions(multimodal_video_fps=[1.0, 4], multimodal_max_pixels=90_000)

    first, still, second = extensions_by_item(processor, said, kinds)

    assert (first, second) == (VideoOptions(multimodal_video_fps=1.0), VideoOptions(multimodal_video_fps=4.0))
    assert still == VideoOptions(multimodal_max_pixels=90_000)
    assert len(processor.sample_frames(clip(600), second)) == 80


@pytest.mark.parametrize("kinds", ["v", "vvv", "i"])
def test_a_list_of_rates_for_other_videos_is_refused_with_both_lengths(processor, kinds):
    """Nobody knows whose they are."""
    kinds = [Modality.VIDEO if kind == "v" else Modality.IMAGE for kind in kinds]
    videos = kinds.count(Modality.VIDEO)
    with pytest.raises(Rejected) as caught:
        extensions_by_item(processor, VideoOptions(multimodal_video_fps=[1.0, 2.5]), kinds)

    assert (caught.value.code, caught.value.param) == ("length_mismatch", "multimodal_video_fps")
    assert caught.value.message == f"multimodal_video_fps has 2 entries for {videos} videos: [1, 2.5]"


@pytest.mark.parametrize(
    ("rates", "path"),
    [(-1, "multimodal_video_fps"), ([2, 0], "multimodal_video_fps.1"), ([2, "x"], "multimodal_video_fps.1")],
)
def test_a_rate_that_cannot_be_is_named_by_its_place(processor, rates, path):
    """Of a list, by its number."""
    with pytest.raises(Rejected) as caught:
        typed_extensions(processor.capabilities(), {"multimodal_video_fps": rates})

    assert (caught.value.code, caught.value.param) == ("invalid_extensions", path)


@pytest.mark.parametrize(("frames", "groups"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
def test_an_odd_last_frame_is_repeated(frames, groups):
    """C021, C022: whole groups of two, and the last frame twice where there is none beside it."""
    taken = film(frames, 56, 56)
    processor = Qwen2VL(ModelSource("any"))

    processed = made(processor, as_video(taken))

    t, h, w = processed.model_specific["video_grid_thw"]
    assert t == groups
    assert processed.tokens == t * h * w // 4
    padded = np.concatenate([taken, np.repeat(taken[-1:], frames % 2, axis=0)])
    assert np.array_equal(processed.feature.array, made(processor, as_video(padded)).feature.array)


def test_a_group_of_three_takes_two_copies():
    """C021: 4 frames in groups of 3 are two groups."""
    processor = Qwen2VL(ModelSource("any"))
    video = processor.settings.video
    geometry = replace(video.geometry, temporal=3)
    processor.settings = replace(processor.settings, video=replace(video, geometry=geometry))

    planned = processor.plan_item(as_video(film(4, 56, 56)))

    assert planned.model_specific["video_grid_thw"][0] == 2


def test_each_processor_keeps_the_contract_with_videos(processor):
    """Valid, the same twice, independent of what ran between; what is planned is what is made."""
    media = [as_video(film(3, 61, 53)), image(noise(40, 30)), as_video(film(1, 33, 70), fps=10)]
    ids = (1, START, VIDEO, END, 2, START, IMAGE, END, START, VIDEO, END)

    output = check_processor(processor, media, input_ids=ids)

    assert [item.modality for item in output.items] == [Modality.VIDEO, Modality.IMAGE, Modality.VIDEO]
    for one, item in zip(media, output.items, strict=True):
        planned = processor.plan_item(one)
        assert planned == Planned(item.feature.shape, item.feature.dtype, item.tokens, item.model_specific)


def test_seconds_a_group_are_each_videos_own():
    """C030: one entry a video, in order, and none for an image; what fps 4 and fps 1 are."""
    processor = Qwen25VL(ModelSource("any"))
    quick, slow = as_video(film(4, 28, 28), fps=4), as_video(film(4, 28, 28), fps=1)
    media = [image(noise(28, 28)), quick, image(noise(28, 28)), slow]

    output = run_processor(processor, media, input_ids=(IMAGE, VIDEO, IMAGE, VIDEO))

    told = [item.model_specific.get("second_per_grid_ts") for item in output.items]
    assert told == [None, 0.5, None, 2.0]


def test_seconds_are_those_of_the_frames_that_were_taken():
    """Every other frame of a clip is half its rate."""
    processor = Qwen25VL(ModelSource("any"))

    assert made(processor, as_video(film(8, 28, 28), (0, 2, 4, 6), fps=8)).model_specific["second_per_grid_ts"] == 0.5


def test_a_still_image_has_one_time_whatever_seconds_mean():
    """C043: three tokens of text, a picture of 2 x 2, two tokens."""
    output = run_processor(Qwen25VL(ModelSource("any")), [image(noise(56, 56))], input_ids=(1, 2, 3, IMAGE, 4, 5))

    assert output.positions.mrope.T.tolist() == [
        *[[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3], [3, 3, 4], [3, 4, 3], [3, 4, 4], [5, 5, 5], [6, 6, 6]]
    ]
    assert output.positions.delta == -2


def test_the_start_of_a_video_is_added_after_its_times_are_scaled():
    """C044: two groups of 2 x 2 behind three tokens, a second a group, two positions a second."""
    block = Block(Span(3, 10), Grid(2, 2, 2), step_of(1.0, 2))

    mrope = positions(11, [block]).mrope[:, 3:]

    assert mrope[0].tolist() == [3, 3, 3, 3, 5, 5, 5, 5]
    assert sorted(set(mrope[1].tolist())) == sorted(set(mrope[2].tolist())) == [3, 4]


def test_seconds_reach_the_positions():
    """C047: six frames at one a second, two positions a second, nothing before."""
    processor = Qwen25VL(ModelSource("any"))
    video = as_video(film(6, 28, 28), fps=1)

    output = run_processor(processor, [video], input_ids=(VIDEO,))

    [item] = output.items
    assert item.model_specific["second_per_grid_ts"] == 2.0
    assert sorted(set(output.positions.mrope[0].tolist())) == [0, 4, 8]


def test_seconds_that_are_lost_are_an_error():
    """C047: never a default in their place."""
    processor = Qwen25VL(ModelSource("any"))
    video = as_video(film(2, 28, 28))
    processed = made(processor, video)
    lost = replace(processed, model_specific={"video_grid_thw": processed.model_specific["video_grid_thw"]})

    with pytest.raises(Failed, match="second_per_grid_ts"):
        drive_prompt(processor, ids_array([VIDEO]), [video], [lost])


def test_qwen2_counts_time_in_steps():
    """Whatever the rate."""
    output = run_processor(Qwen2VL(ModelSource("any")), [as_video(film(6, 28, 28), fps=1)], input_ids=(VIDEO,))

    assert sorted(set(output.positions.mrope[0].tolist())) == [0, 1, 2]


@pytest.mark.parametrize(("frames", "stamps"), [(10, ["0.1", "0.2"]), (60, ["0.3", "1.6"])])
def test_qwen3_tells_the_time_of_each_group_as_text(frames, stamps):
    """C023: the mean of its two frames, to a tenth; 0.25 prints as 0.2."""
    processor = Qwen3VL(ModelSource("any"))
    video = as_video(film(frames, 64, 64), chosen(processor, clip(frames)))
    tokenizer = processor.tokenizer()

    output = run_processor(processor, [video], input_ids=(START, VIDEO, END))

    [item] = output.items
    assert [span.length for span in item.spans] == [item.tokens // 2] * 2
    text = [id_ for id_ in output.input_ids.tolist() if id_ < START]
    assert tokenizer.decode(text) == "".join(f"<{stamp} seconds>" for stamp in stamps)
    assert [output.input_ids[span.first - 1] for span in item.spans] == [START] * 2
    assert [output.input_ids[span.last + 1] for span in item.spans] == [END] * 2


def test_qwen3_tells_true_times_where_the_rate_varies():
    """What a player shows, not a number divided by an average."""
    video = as_video(film(4, 64, 64), fps=4, times_s=(0.0, 0.5, 3.0, 5.0))

    assert made(Qwen3VL(ModelSource("any")), video).model_specific["timestamps"] == [0.25, 4.0]


def test_videos_and_images_stand_where_their_parts_stood():
    """C041: item order is part order for each kind, spans ascend, and each feature lies under its own."""
    processor = Qwen2VL(ModelSource("any"))
    red, green = (np.full((28, 28, 3), colour, np.uint8) for colour in ((255, 0, 0), (0, 255, 0)))
    media = [image(red), image(green), as_video(np.zeros((2, 28, 28, 3), np.uint8))]

    output = run_processor(processor, media, input_ids=(1, IMAGE, 2, IMAGE, 3, VIDEO, 4))

    firsts = [item.spans[0].first for item in output.items]
    assert firsts == sorted(firsts)
    assert [item.feature.array[0, 0] > 1 for item in output.items] == [True, False, False]


@pytest.mark.parametrize("cls", FAMILIES)
def test_bytes_become_the_same_floats(cls):
    """A uint8 feature of a video stores every frame, and is normalised by the reader."""
    video = as_video(film(3, 61, 53))
    expected = made(cls(ModelSource("any")), video).feature.array

    feature = made(cls(ModelSource("any", feature_dtype=DType.UINT8)), video).feature

    mean, std = (np.float32(part)[:, None] for part in (feature.normalisation.mean, feature.normalisation.std))
    normalised = (feature.array.astype(np.float32) - mean) / std
    assert feature.normalisation.copies == 1
    assert normalised.reshape(expected.shape).tobytes() == expected.tobytes()
