"""Settings from a Hugging Face folder: honoured, or refused by file and key."""

import json

import pytest

from forebay import ConfigurationError, Modality, ModelSource
from processors.qwen_vl import Qwen2VL, Qwen3VL, Qwen25VL
from processors.qwen_vl.folder import read_settings
from processors.qwen_vl.settings import QWEN2, Normalisation, SpecialTokens

CONFIG = {
    "model_type": "qwen2_vl",
    "image_token_id": 90,
    "video_token_id": 91,
    "vision_start_token_id": 92,
    "vision_end_token_id": 93,
    "vocab_size": 100,
    "vision_config": {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2},
}
PREPROCESSOR = {
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2VLProcessor",
}
ABSENT = object()


@pytest.fixture
def folder(tmp_path):
    """A writer of folders: what differs from the plain one is given, ``ABSENT`` leaves a key out."""

    def write(*, config=None, preprocessor=None, nested=None):
        write_json(tmp_path / "config.json", changed(CONFIG, config))
        write_json(tmp_path / "preprocessor_config.json", changed(PREPROCESSOR, preprocessor))
        if nested is not None:
            write_json(tmp_path / "processor_config.json", {"image_processor": changed(PREPROCESSOR, nested)})
        return ModelSource("qwen2-vl", tmp_path)

    return write


def changed(plain, changes):
    return {key: value for key, value in {**plain, **(changes or {})}.items() if value is not ABSENT}


def write_json(path, data):
    path.write_text(json.dumps(data))


def read(model):
    return read_settings(model, ("qwen2_vl",))


def test_a_plain_folder_gives_the_models_settings(folder):
    """The released spelling, with the folder's own token ids and vocabulary."""
    settings = read(folder())

    assert settings.geometry == QWEN2.geometry
    assert settings.normalisation == QWEN2.normalisation
    assert settings.special == SpecialTokens(90, 91, 92, 93)
    assert settings.vocabulary == 100


def test_the_limits_may_be_spelled_as_edges(folder):
    """Newer folders say size.shortest_edge and size.longest_edge, and mean pixels all the same."""
    size = {"shortest_edge": 6272, "longest_edge": 50176}
    model = folder(preprocessor={"min_pixels": ABSENT, "max_pixels": ABSENT, "size": size})

    geometry = read(model).geometry

    assert (geometry.min_pixels, geometry.max_pixels) == (6272, 50176)


def test_where_both_spellings_stand_the_plain_one_wins(folder):
    """As in Hugging Face."""
    model = folder(preprocessor={"max_pixels": None, "size": {"shortest_edge": 1, "longest_edge": 50176}})

    geometry = read(model).geometry

    assert (geometry.min_pixels, geometry.max_pixels) == (3136, 50176)


def test_settings_nested_in_the_processor_file_come_first(folder):
    """As in Hugging Face, and an error names the nested key."""
    assert read(folder(nested={"max_pixels": 50176})).geometry.max_pixels == 50176

    with pytest.raises(ConfigurationError, match=r"processor_config\.json: key 'image_processor\.merge_size'"):
        read(folder(nested={"merge_size": 0}))


def test_a_processor_file_without_image_settings_is_passed_over(folder, tmp_path):
    """Older folders have one that only names classes."""
    write_json(tmp_path / "processor_config.json", {"processor_class": "Qwen2VLProcessor"})

    assert read(folder()).geometry == QWEN2.geometry


def test_the_vocabulary_may_stand_with_the_text_model(folder):
    """Newer folders nest it."""
    assert read(folder(config={"vocab_size": ABSENT, "text_config": {"vocab_size": 77}})).vocabulary == 77


def test_normalisation_is_read(folder):
    """Mean, deviation and the factor that scales bytes."""
    keys = {"image_mean": [0.5, 0.25, 0], "image_std": [1, 2, 0.5], "rescale_factor": 0.0078125}

    assert read(folder(preprocessor=keys)).normalisation == Normalisation((0.5, 0.25, 0.0), (1.0, 2.0, 0.5), 0.0078125)


def test_every_key_that_hugging_face_writes_is_understood(folder):
    """The full form, with what is empty and what only describes the call."""
    keys = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "do_center_crop": None,
        "do_pad": None,
        "crop_size": None,
        "data_format": "channels_first",
        "default_to_square": True,
        "device": None,
        "resample": 3,
        "rescale_factor": 0.00392156862745098,
        "size": {"shortest_edge": 3136, "longest_edge": 12845056},
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "_valid_kwargs_names": ["do_resize"],
    }

    assert read(folder(preprocessor=keys)).normalisation == QWEN2.normalisation


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resample", 2),
        ("do_resize", False),
        ("do_rescale", False),
        ("do_normalize", False),
        ("do_convert_rgb", False),
        ("do_center_crop", True),
        ("do_pad", True),
        ("crop_size", {"height": 224, "width": 224}),
        ("image_processor_type", "CLIPImageProcessor"),
        ("cap_pixels_per_frame", True),
        ("patch_size", "14"),
        ("patch_size", 0),
        ("patch_size", True),
        ("merge_size", -2),
        ("temporal_patch_size", 2.0),
        ("image_mean", [0.5, 0.5]),
        ("image_mean", 0.5),
        ("image_mean", ["0.5", 0.5, 0.5]),
        ("image_std", [0.5, 0.0, 0.5]),
        ("rescale_factor", 0),
        ("rescale_factor", "1/255"),
        ("min_pixels", 0),
        ("max_pixels", 3135),
        ("max_pixels", 1e9),
    ],
)
def test_an_image_setting_that_cannot_be_honoured_is_refused(folder, key, value):
    """Never ignored in silence: the file and the key are named."""
    with pytest.raises(ConfigurationError, match=rf"preprocessor_config\.json: key '{key}' has the unsupported value"):
        read(folder(preprocessor={key: value}))


@pytest.mark.parametrize("key", ["patch_size", "merge_size", "temporal_patch_size", "image_mean", "image_std"])
def test_an_image_setting_that_is_missing_is_named(folder, key):
    """No default stands in for what the folder should say."""
    with pytest.raises(ConfigurationError, match=rf"preprocessor_config\.json: key '{key}' is missing"):
        read(folder(preprocessor={key: ABSENT}))


def test_a_limit_missing_in_both_spellings_is_named(folder):
    """By the newer spelling."""
    with pytest.raises(ConfigurationError, match=r"preprocessor_config\.json: key 'size\.longest_edge' is missing"):
        read(folder(preprocessor={"max_pixels": ABSENT}))


@pytest.mark.parametrize(
    "key",
    [
        "model_type",
        "image_token_id",
        "video_token_id",
        "vision_start_token_id",
        "vision_end_token_id",
        "vocab_size",
    ],
)
def test_a_model_setting_that_is_missing_is_named(folder, key):
    """A token id guessed wrong would send images into the text."""
    with pytest.raises(ConfigurationError, match=rf"config\.json: key '{key}' is missing"):
        read(folder(config={key: ABSENT}))


@pytest.mark.parametrize("key", ["patch_size", "spatial_merge_size", "temporal_patch_size"])
def test_a_vision_tower_that_cuts_otherwise_is_refused(folder, key):
    """The two files must describe one model."""
    tower = {**CONFIG["vision_config"], key: 3}

    with pytest.raises(
        ConfigurationError, match=rf"config\.json: key 'vision_config\.{key}' has the unsupported value"
    ):
        read(folder(config={"vision_config": tower}))


def test_a_folder_of_another_model_is_refused(folder):
    """Each processor serves its own model types."""
    with pytest.raises(ConfigurationError, match=r"key 'model_type' has the unsupported value 'qwen3_vl'"):
        read(folder(config={"model_type": "qwen3_vl"}))


def test_a_missing_file_is_named(folder, tmp_path):
    """Both files are needed."""
    model = folder()
    (tmp_path / "preprocessor_config.json").unlink()

    with pytest.raises(ConfigurationError, match=r"preprocessor_config\.json is missing"):
        read(model)


@pytest.mark.parametrize(
    ("cls", "model_type"),
    [(Qwen2VL, "qwen2_vl"), (Qwen25VL, "qwen2_5_vl"), (Qwen3VL, "qwen3_vl"), (Qwen3VL, "qwen3_vl_moe")],
)
def test_a_processor_lives_by_its_folder(folder, cls, model_type):
    """Placeholder, vocabulary and fingerprint come from it; the tokenizer is left to the host."""
    processor = cls(folder(config={"model_type": model_type}))

    capabilities = processor.capabilities()

    assert capabilities.placeholders == {Modality.IMAGE: 90, Modality.VIDEO: 91}
    assert capabilities.vocabulary == 100
    assert processor.tokenizer() is None
    assert processor.config() != cls(ModelSource("any")).config()


def test_the_folders_tokenizer_must_mean_the_same_tokens(folder, tmp_path):
    """The host loads it, the family knows what it must say."""
    write_json(tmp_path / "tokenizer.json", {"added_tokens": [{"id": 89, "content": "<|image_pad|>"}]})

    with pytest.raises(ConfigurationError, match="has id 89, the model's is 90"):
        Qwen2VL(folder()).tokenizer()


def test_every_setting_that_changes_features_is_in_the_fingerprint(folder):
    """Two folders that differ in one image setting are not the same processor."""
    changes = [
        {},
        {"min_pixels": 6272},
        {"max_pixels": 50176},
        {"image_mean": [0.5, 0.5, 0.5]},
        {"image_std": [0.5, 0.5, 0.5]},
        {"rescale_factor": 0.5},
    ]

    configs = [json.dumps(Qwen2VL(folder(preprocessor=change)).config(), sort_keys=True) for change in changes]

    assert len(set(configs)) == len(changes)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"max_position_embeddings": 4096}, 4096),
        ({"max_position_embeddings": None, "text_config": {"max_position_embeddings": 128}}, 128),
        ({"max_position_embeddings": None}, None),
    ],
)
def test_the_folder_says_how_long_a_prompt_may_be(folder, config, tokens):
    """Nested in newer ones; it changes no feature, so the fingerprint does not know it."""
    settings = read_settings(folder(config=config), ("qwen2_vl",))

    assert settings.context_tokens == tokens
    assert "context_tokens" not in settings.as_json()
