"""Video settings of a folder: where they stand, which come first, and what is refused by name."""

import json

import pytest

from forebay import ConfigurationError, ModelSource
from processors.qwen_vl import Qwen2VL, Qwen25VL
from processors.qwen_vl.sampling import Sampling
from tests.processors.test_qwen_folder import CONFIG, PREPROCESSOR

VIDEO = {
    "size": {"shortest_edge": 100352, "longest_edge": 602112},
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "fps": 1,
    "min_frames": 2,
    "max_frames": 10,
    "do_sample_frames": False,
    "video_processor_type": "Qwen2VLVideoProcessor",
}


@pytest.fixture
def folder(tmp_path):
    """A writer of folders, with files by their names."""

    def write(model_type="qwen2_vl", **files):
        plain = {"config": {**CONFIG, "model_type": model_type}, "preprocessor_config": PREPROCESSOR}
        for name, data in {**plain, **files}.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(data))
        return ModelSource("qwen2-vl", tmp_path)

    return write


def test_a_folder_with_one_file_for_both_has_the_same_limits_for_frames(folder):
    """As in Hugging Face: older folders say nothing of videos."""
    settings = Qwen2VL(folder()).settings

    assert settings.video.geometry == settings.geometry
    assert settings.video.sampling == Sampling(fps=2.0, min_frames=4, max_frames=768)


def test_a_file_of_their_own_comes_first(folder):
    """With its own limits, normalisation and choice of frames."""
    video = Qwen2VL(folder(video_preprocessor_config=VIDEO)).settings.video

    assert (video.geometry.min_pixels, video.geometry.max_pixels) == (100352, 602112)
    assert video.normalisation.mean == (0.5, 0.5, 0.5)
    assert video.sampling == Sampling(fps=1.0, min_frames=2, max_frames=10)


def test_what_is_nested_in_the_processors_file_comes_before_all(folder):
    """As version 5 of Hugging Face's library saves it."""
    nested = {"video_processor": {**VIDEO, "num_frames": 6}, "image_processor": PREPROCESSOR}

    video = Qwen2VL(folder(video_preprocessor_config=VIDEO, processor_config=nested)).settings.video

    assert video.sampling.num_frames == 6


@pytest.mark.parametrize(
    ("key", "value"),
    [("cap_pixels_per_frame", True), ("resample", 2), ("fps", 0), ("num_frames", 0), ("do_resize", False), ("odd", 1)],
)
def test_a_video_setting_that_cannot_be_honoured_is_refused(folder, key, value):
    """Never ignored in silence: the file and the key are named."""
    with pytest.raises(ConfigurationError, match=rf"video_preprocessor_config\.json: key '{key}'"):
        Qwen2VL(folder(video_preprocessor_config={**VIDEO, key: value}))


def test_the_tower_must_cut_frames_too_as_the_settings_say(folder):
    """Another patch for videos than the model's is a mistake of the folder."""
    with pytest.raises(ConfigurationError, match=r"vision_config\.patch_size"):
        Qwen2VL(folder(video_preprocessor_config={**VIDEO, "patch_size": 16}))


@pytest.mark.parametrize(("said", "expected"), [({}, 4), ({"tokens_per_second": 25}, 25)])
def test_positions_a_second_are_the_folders(folder, said, expected):
    """Of Qwen2.5-VL; what its configuration class has, where the folder is silent."""
    config = {**CONFIG, "model_type": "qwen2_5_vl", "vision_config": {**CONFIG["vision_config"], **said}}

    assert Qwen25VL(folder(config=config)).settings.tokens_per_second == expected


def test_whatever_changes_a_videos_features_is_in_the_fingerprint(folder):
    """Limits and the choice of frames."""
    changes = [{}, {"fps": 2}, {"max_frames": 12}, {"size": {"shortest_edge": 100352, "longest_edge": 401408}}]

    prints = {json.dumps(Qwen2VL(folder(video_preprocessor_config={**VIDEO, **one})).config()) for one in changes}

    assert len(prints) == len(changes)
