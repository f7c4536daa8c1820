"""Settings from a Hugging Face folder: a key is honoured, has the one supported value, or is refused by name."""

from __future__ import annotations

from typing import Any

from forebay import ModelSource
from processors.pixels.modes import resample_of
from processors.qwen_vl.geometry import Geometry
from processors.qwen_vl.keys import Keys, geometry_of, normalisation_of, positive
from processors.qwen_vl.settings import Settings, SpecialTokens, VideoSettings, of_videos
from processors.qwen_vl.video_folder import video_keys, video_settings

CONFIG = "config.json"
PREPROCESSOR = "preprocessor_config.json"
PROCESSOR = "processor_config.json"  # newer folders nest the image settings in it, and then it comes first
NESTED = "image_processor"

# Of the models that count time in seconds: what the configuration class has where a folder says nothing.
_TOKENS_PER_SECOND = {"qwen2_5_vl": 4}
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "image_processor_type": (
        "Qwen2VLImageProcessor",
        "Qwen2VLImageProcessorFast",
        "Qwen2VLImageProcessorPil",
        "Qwen2_5_VLImageProcessor",  # what the first Qwen2.5-VL folders call the same thing
    ),
}


def read_settings(model: ModelSource, model_types: tuple[str, ...]) -> Settings:
    """Read the settings of a folder.

    Args:
        model: where the folder is.
        model_types: the values of ``model_type`` that the asking processor serves.

    Raises:
        ConfigurationError: naming the file and the key that is missing or unsupported.
    """
    config = Keys(model.json(CONFIG))
    model_type = config.get("model_type", str)
    if model_type not in model_types:
        raise config.refuse("model_type", model_type)
    keys = _image_keys(model)
    keys.check_names(_SUPPORTED)
    geometry, normalisation = geometry_of(keys), normalisation_of(keys)
    video = _video(model, keys) or of_videos(geometry, normalisation)
    for one in (geometry, video.geometry):
        _check_tower(config, one)
    return Settings(
        geometry,
        normalisation,
        video,
        _special(config),
        _vocabulary(config),
        _context(config),
        _tokens_per_second(config, model_type),
        resample_of(keys.get("image_processor_type", str, default=""))[1],
    )


def _tokens_per_second(config: Keys, model_type: str) -> int | None:
    """``None`` where the model counts time in steps, whatever the folder says."""
    if model_type not in _TOKENS_PER_SECOND:
        return None
    found: int = config.get("vision_config.tokens_per_second", int, default=_TOKENS_PER_SECOND[model_type])
    return found


def _video(model: ModelSource, image: Keys) -> VideoSettings | None:
    """From where they stand; older folders have one file for both, and then its limits are those of each frame."""
    keys = video_keys(model)
    if keys is not None:
        return video_settings(keys)
    if image.prefix:
        return None
    return VideoSettings(geometry_of(image), normalisation_of(image))


def _image_keys(model: ModelSource) -> Keys:
    if model.folder is not None and (model.folder / PROCESSOR).is_file():
        file = model.json(PROCESSOR)
        if NESTED in file.names:
            return Keys(file, f"{NESTED}.")
    return Keys(model.json(PREPROCESSOR))


def _check_tower(config: Keys, geometry: Geometry) -> None:
    """The vision tower must cut pictures as the preprocessor does."""
    expected = {
        "vision_config.patch_size": geometry.patch,
        "vision_config.spatial_merge_size": geometry.merge,
        "vision_config.temporal_patch_size": geometry.temporal,
    }
    for name, value in expected.items():
        found = config.get(name, int, default=value)
        if found != value:
            raise config.refuse(name, f"{found}; the image settings say {value}")


def _special(config: Keys) -> SpecialTokens:
    return SpecialTokens(
        image_pad=config.get("image_token_id", int),
        video_pad=config.get("video_token_id", int),
        vision_start=config.get("vision_start_token_id", int),
        vision_end=config.get("vision_end_token_id", int),
    )


def _vocabulary(config: Keys) -> int:
    """Newer folders keep it with the text model, older ones beside everything else."""
    nested: int | None = config.get("text_config.vocab_size", int, default=None)
    return nested if nested is not None else positive(config, "vocab_size")


def _context(config: Keys) -> int | None:
    """Where the folder has the language model's settings, which newer ones nest."""
    for key in ("max_position_embeddings", "text_config.max_position_embeddings"):
        found: int | None = config.get(key, int, default=None)
        if found:
            return found
    return None
