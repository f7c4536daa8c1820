"""Videos, bit for bit as Hugging Face transformers 5.24.0 prepares them on a CPU: frames, pixels, ids, positions."""

import io
from types import SimpleNamespace

import av
import numpy as np
import pytest

from forebay import Modality, ModelSource, Prompt, Rejected, Video, Work
from forebay.drive import extensions_by_item, typed_extensions
from forebay.testing import image, run_processor
from processors.qwen_vl import Qwen2VL, Qwen3VL, Qwen25VL
from processors.qwen_vl.sampling import Sampling
from processors.qwen_vl.tokenizer import packaged_file
from tests.processors.films import as_video, clip, film
from tests.processors.pictures import noise
from tests.support.videos import encoded
from workers.decode import decode_video

pytestmark = pytest.mark.parity

FAMILIES = {"qwen2-vl": Qwen2VL, "qwen2.5-vl": Qwen25VL, "qwen3-vl": Qwen3VL}
STEMS = {Qwen2VL: "Qwen2VL", Qwen25VL: "Qwen2_5_VL", Qwen3VL: "Qwen3VL"}
MODULES = {Qwen2VL: "qwen2_vl", Qwen25VL: "qwen2_5_vl", Qwen3VL: "qwen3_vl"}
FILMS = [  # frames, height, width
    *[(2, 56, 56), (3, 56, 84), (4, 61, 53), (5, 97, 131), (6, 33, 70), (7, 144, 176), (2, 20, 700), (2, 14, 14)],
    *[(4, 240, 320), (8, 272, 640), (3, 720, 1280), (2, 1080, 1920), (9, 360, 640), (16, 128, 128), (2, 1, 150)],
]
CLIPS = 3000


def video_reference(transformers, processor):
    """Hugging Face's video processor with the settings of ours."""
    video = processor.settings.video
    name = "Qwen3VLVideoProcessor" if isinstance(processor, Qwen3VL) else "Qwen2VLVideoProcessor"
    return getattr(transformers, name)(
        patch_size=video.geometry.patch,
        merge_size=video.geometry.merge,
        temporal_patch_size=video.geometry.temporal,
        size={"shortest_edge": video.geometry.min_pixels, "longest_edge": video.geometry.max_pixels},
        image_mean=list(video.normalisation.mean),
        image_std=list(video.normalisation.std),
        fps=video.sampling.fps,
        do_sample_frames=True,
        cap_pixels_per_frame=False,
    )


def whole_reference(transformers, processor):
    """Hugging Face's processor of text, images and videos."""
    still = processor.settings
    images = transformers.Qwen2VLImageProcessor(
        patch_size=still.geometry.patch,
        merge_size=still.geometry.merge,
        temporal_patch_size=still.geometry.temporal,
        size={"shortest_edge": still.geometry.min_pixels, "longest_edge": still.geometry.max_pixels},
        image_mean=list(still.normalisation.mean),
        image_std=list(still.normalisation.std),
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(packaged_file().parent)
    whole = getattr(transformers, f"{STEMS[type(processor)]}Processor")
    return whole(images, tokenizer, video_reference(transformers, processor))


def metadata(frames: np.ndarray, fps: float) -> dict:
    return {"total_num_frames": len(frames), "fps": fps, "height": frames.shape[1], "width": frames.shape[2]}


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
    import torch

    processor = cls(ModelSource("any"))
    theirs = whole_reference(transformers, processor)
    model = model_of(transformers, processor)
    pictures = [noise(40, 60), noise(100, 90, seed=1)]
    films = [film(9, 70, 90), film(6, 112, 56, seed=2), film(24, 56, 56, seed=3)]
    rates = [2.0, 30000 / 1001, 12.0]
    picture, video = "<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|video_pad|><|vision_end|>"
    for text, stills, moving in (
        (f"Look:\n{video} what is it?", [], [0]),
        (f"{picture}A {video} b\n\n{picture}{video}{video}", [0, 1], [0, 1, 2]),
        (f"{video}{picture} and {video}, then", [1], [2, 1]),
    ):
        expected = theirs(
            text=[text],
            images=[pictures[number] for number in stills] or None,
            videos=[films[number] for number in moving],
            video_metadata=[metadata(films[number], rates[number]) for number in moving],
            return_tensors="pt",
        )
        media = [image(pictures[number]) for number in stills]
        media += [sampled(processor, films[number], rates[number]) for number in moving]
        output = run_processor(processor, media, text=text)

        assert output.input_ids.tolist() == expected["input_ids"][0].tolist()
        values = b"".join(item.feature.array.tobytes() for item in output.items if item.modality == "video")
        assert values == expected["pixel_values_videos"].numpy().tobytes()
        told = [item.model_specific for item in output.items if item.modality == "video"]
        assert [one["video_grid_thw"] for one in told] == expected["video_grid_thw"].tolist()
        names = {"image_grid_thw", "video_grid_thw", "second_per_grid_ts"} & set(expected)
        if "second_per_grid_ts" in names:
            assert [one["second_per_grid_ts"] for one in told] == pytest.approx(
                torch.as_tensor(expected["second_per_grid_ts"]).tolist()
            )
        mrope, delta = type_of(transformers, processor).get_rope_index(
            model, expected["input_ids"], expected["mm_token_type_ids"], **{name: expected[name] for name in names}
        )
        assert np.array_equal(output.positions.mrope, mrope[:, 0].numpy())
        assert output.positions.delta == delta.item()


def type_of(transformers, processor):
    """The model whose positions are the reference."""
    module = MODULES[type(processor)]
    models = getattr(transformers.models, module)
    return getattr(getattr(models, f"modeling_{module}"), f"{STEMS[type(processor)]}Model")


def model_of(transformers, processor):
    """As much of it as positions need, with our positions a second."""
    config = getattr(transformers, f"{STEMS[type(processor)]}Config")()
    if processor.settings.tokens_per_second is not None:
        config.vision_config.tokens_per_second = processor.settings.tokens_per_second
    place = type_of(transformers, processor).get_vision_position_ids
    return SimpleNamespace(config=config, get_vision_position_ids=lambda *a, **k: place(None, *a, **k))


def test_video_settings_that_hugging_face_saved_are_read_as_they_were_meant(transformers, tmp_path):
    """A whole processor as version 5.24.0 writes it, for each model."""
    for cls in FAMILIES.values():
        processor = cls(ModelSource("any"))
        folder = tmp_path / STEMS[cls]
        whole_reference(transformers, processor).save_pretrained(folder)
        getattr(transformers, f"{STEMS[cls]}Config")().save_pretrained(folder)

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
