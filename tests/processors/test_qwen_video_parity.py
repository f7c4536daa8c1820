"""Videos, bit for bit as Hugging Face transformers 5.24.0 prepares them on a CPU: frames, pixels, ids, positions."""

import io
from dataclasses import replace
from types import SimpleNamespace

import av
import numpy as np
import pytest

from forebay import Modality, ModelSource, Prompt, Rejected, Video, Work
from forebay.drive import extensions_by_item, typed_extensions
from processors.qwen_vl import Qwen2VL, Qwen3VL
from processors.qwen_vl.sampling import Sampling
from tests.processors.films import as_video, clip, film
from tests.processors.pictures import noise
from tests.processors.qwen_prompts import (
    FAMILIES,
    PICTURE,
    STEMS,
    VIDEO,
    Film,
    Request,
    differences,
    name_of,
    prepared,
    video_reference,
    whole_reference,
)
from tests.support.long import LONG
from tests.support.videos import encoded
from workers.decode import decode_video

pytestmark = pytest.mark.parity

FILMS = [  # frames, height, width
    *[(2, 56, 56), (3, 56, 84), (4, 61, 53), (5, 97, 131), (6, 33, 70), (7, 144, 176), (2, 20, 700), (2, 14, 14)],
    *[(4, 240, 320), (8, 272, 640), (3, 720, 1280), (2, 1080, 1920), (9, 360, 640), (16, 128, 128), (2, 1, 150)],
]
CLIPS = 3000 if LONG else 600


def metadata(frames: np.ndarray, fps: float) -> dict:
    return Film(frames, fps).metadata


def sampled(processor, frames: np.ndarray, fps: float):
    """A video as our decoder would hand it over."""
    return as_video(frames, processor.sample_frames(clip(len(frames), fps), None), fps=fps)


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_frames_are_chosen_alike(transformers, record_property, cls):
    """Over many lengths, rates and wishes: the same indices, or both refuse.

    Two differences are meant: a frame behind the end, which the reference names and then cannot find, is left out; and
    more frames than there are, which Qwen3-VL's repeats, are refused of every model.
    """
    theirs = video_reference(transformers, cls(ModelSource("any")))
    theirs.fps = None  # only the wish counts
    processor = cls(ModelSource("any"))
    rng = np.random.default_rng(5)
    rates = [1, 5, 10, 12.5, 15, 23.976, 24, 25, 30000 / 1001, 30, 50, 60, 120]
    different, refused = [], 0
    for _ in range(CLIPS):
        total, rate = int(np.exp(rng.uniform(np.log(2), np.log(20_000)))), float(rng.choice(rates))
        wish = (
            {"num_frames": int(rng.integers(2, 64))}
            if rng.random() < 0.3
            else {"fps": float(rng.choice([0.5, 1, 2, 3.3, 4, 24]))}
        )
        given = SimpleNamespace(total_num_frames=total, fps=rate)
        try:
            expected = [int(index) for index in theirs.sample_frames(given, **wish) if index < total]
        except ValueError:
            expected = None
        if isinstance(processor, Qwen3VL) and wish.get("num_frames", 0) > total:
            expected = None
        try:
            ours = list(processor._choose(clip(total, rate), Sampling(**wish)))
        except Rejected:
            ours, refused = None, refused + 1
        if ours != expected:
            different.append((total, rate, wish))

    record_property("clips compared", CLIPS)
    print(f"{cls.__name__}: {CLIPS} clips compared, {CLIPS - len(different)} equal, {refused} refused by both")
    assert different == []


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_features_and_grids_of_videos_are_bit_equal(transformers, record_property, cls):
    """From the same decoded frames: the choice, the resize, the normalisation, the order of the patches."""
    processor = cls(ModelSource("any"))
    theirs = video_reference(transformers, processor)
    different = []
    for number, (count, height, width) in enumerate(FILMS):
        frames, fps = film(count, height, width, seed=number), (2.0, 4.0, 30.0)[number % 3]
        expected = theirs(
            videos=[frames],
            video_metadata=[metadata(frames, fps)],
            input_data_format="channels_last",
            return_tensors="np",
        )
        video = sampled(processor, frames, fps)
        ours = processor.process_item(video, Work("r", Prompt(ids=(1,)), (video,)))
        same_grid = ours.model_specific["video_grid_thw"] == expected["video_grid_thw"][0].tolist()
        if not same_grid or ours.feature.array.tobytes() != expected["pixel_values_videos"].tobytes():
            different.append((count, height, width))

    record_property("videos compared", len(FILMS))
    print(f"{cls.__name__}: {len(FILMS)} videos compared, {len(FILMS) - len(different)} bit-equal")
    assert different == []


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_prompts_of_images_and_videos_are_equal_to_the_last_position(transformers, cls):
    """C030, C043, C044, C047: ids, features, grids, seconds and M-RoPE positions of whole prompts."""
    processor = cls(ModelSource("any"))
    pictures = [noise(40, 60), noise(100, 90, seed=1)]
    films = [film(9, 70, 90), film(6, 112, 56, seed=2), film(24, 56, 56, seed=3)]
    rates = [2.0, 30000 / 1001, 12.0]
    for text, stills, moving in (
        (f"Look:\n{VIDEO} what is it?", [], [0]),
        (f"{PICTURE}A {VIDEO} b\n\n{PICTURE}{VIDEO}{VIDEO}", [0, 1], [0, 1, 2]),
        (f"{VIDEO}{PICTURE} and {VIDEO}, then", [1], [2, 1]),
    ):
        taken = [Film(films[number], rates[number]) for number in moving]
        request = Request(text, [pictures[number] for number in stills], taken)

        assert differences(transformers, processor, request, prepared(processor, request)) == []


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize(
    "limits",
    [{"max_pixels": 30_000}, {"min_pixels": 200_000}, {"min_pixels": 150_000, "max_pixels": 180_000}],
    ids=["largest", "smallest", "both"],
)
def test_a_request_has_limits_of_its_own_for_videos(transformers, cls, limits):
    """Each alone and both together, of videos and not of the picture beside them; and the next request has none."""
    processor = cls(ModelSource("any"))
    limits = {f"multimodal_video_{name}": value for name, value in limits.items()}
    plain = Request(f"{PICTURE}{VIDEO}", [noise(100, 90)], [Film(film(5, 120, 160), 2.0)])
    request = replace(plain, limits=limits)
    before, output, after = (prepared(processor, one) for one in (plain, request, plain))

    assert differences(transformers, processor, request, output) == []
    assert differences(transformers, processor, plain, after) == []
    grids = [one.items[1].model_specific["video_grid_thw"] for one in (before, output, after)]
    assert grids[0] == grids[2] != grids[1]


def test_more_pixels_of_a_video_than_the_model_takes_are_refused():
    """A caller may not make a small clip into a large one at everybody's cost."""
    processor = Qwen2VL(ModelSource("any"))
    most = processor.settings.video.geometry.max_pixels
    request = Request(VIDEO, [], [Film(film(4, 56, 56), 2.0)], {"multimodal_video_max_pixels": most + 1})

    with pytest.raises(Rejected, match=f"video_max_pixels is {most + 1}; the model takes at most {most}"):
        prepared(processor, request)


def test_video_settings_that_hugging_face_saved_are_read_as_they_were_meant(transformers, tmp_path):
    """A whole processor as version 5.24.0 writes it, for each model."""
    for cls in FAMILIES.values():
        processor = cls(ModelSource("any"))
        folder = tmp_path / STEMS[name_of(processor)]
        whole_reference(transformers, processor).save_pretrained(folder)
        getattr(transformers, f"{STEMS[name_of(processor)]}Config")().save_pretrained(folder)

        settings = cls(ModelSource("any", folder)).settings

        assert settings.video == processor.settings.video
        assert settings.geometry == processor.settings.geometry


@pytest.mark.parametrize(("codec", "kind"), [("libx264", "mp4"), ("libvpx-vp9", "webm"), ("mpeg4", "avi")])
@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_a_file_becomes_what_hugging_face_makes_of_all_its_frames(transformers, cls, codec, kind):
    """From bytes: we decode the frames that are wanted, the reference all of them with PyAV, and then chooses."""
    processor = cls(ModelSource("any"))
    data = encoded(film(23, 96, 160), codec, kind, rate=12)
    with av.open(io.BytesIO(data)) as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    expected = video_reference(transformers, processor)(
        videos=[frames], video_metadata=[metadata(frames, 12.0)], return_tensors="np"
    )

    taken = decode_video(data, lambda one: processor.sample_frames(one, None), "video_data")
    video = Video(taken.frames, taken.indices, taken.times_s, taken.clip, "sha256:0", 1)
    ours = processor.process_item(video, Work("r", Prompt(ids=(1,)), (video,)))

    assert len(taken.indices) < len(frames)
    assert ours.model_specific["video_grid_thw"] == expected["video_grid_thw"][0].tolist()
    assert ours.feature.array.tobytes() == expected["pixel_values_videos"].tobytes()


@pytest.mark.parametrize("cls", FAMILIES.values(), ids=FAMILIES)
def test_each_video_of_a_request_may_have_a_rate_of_its_own(transformers, cls):
    """C030: an image between two files; each video is what the reference makes of it at its rate."""
    processor = cls(ModelSource("any"))
    kinds = [Modality.VIDEO, Modality.IMAGE, Modality.VIDEO]
    said = typed_extensions(processor.capabilities(), {"multimodal_video_fps": [1, 4.0]})
    own = [one for one in extensions_by_item(processor, said, kinds) if one.multimodal_video_fps]
    taken = []
    for number, (rate, wish) in enumerate(zip((1.0, 4.0), own, strict=True)):
        data = encoded(film(72 - number, 96, 160, seed=number), rate=12)
        with av.open(io.BytesIO(data)) as container:
            frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
        expected = video_reference(transformers, processor)(
            videos=[frames], video_metadata=[metadata(frames, 12.0)], fps=rate, return_tensors="np"
        )
        sampled = decode_video(data, lambda one, wish=wish: processor.sample_frames(one, wish), "video_data")
        video = Video(sampled.frames, sampled.indices, sampled.times_s, sampled.clip, "sha256:0", 1)

        ours = processor.process_item(video, Work("r", Prompt(ids=(1,)), (video,), wish))

        taken.append(len(sampled.indices))
        assert ours.model_specific["video_grid_thw"] == expected["video_grid_thw"][0].tolist()
        assert ours.feature.array.tobytes() == expected["pixel_values_videos"].tobytes()
    assert taken[1] > 3 * taken[0]
