"""A folder's own processor, loaded from its files alone: nothing is fetched, and no code of the folder is run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forebay import ConfigurationError

_CONFIGS = (
    "processor_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "tokenizer_config.json",
    "config.json",
)
_VIDEO = "video_processor"
_OFFLINE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a folder has that no class binds together: any of the three, ``None`` where it has none."""

    tokenizer: Any | None
    image_processor: Any | None
    feature_extractor: Any | None


def load_processor(folder: Path) -> Any:
    """What ``AutoProcessor`` makes of a folder; without torchvision, what is left of it without its videos.

    Raises:
        ConfigurationError: transformers is not installed, or cannot make a processor of the folder's files.
    """
    try:
        import transformers
    except ImportError as error:
        raise ConfigurationError(f"{folder} needs transformers: pip install 'forebay[transformers]'") from error
    try:
        found = _load(transformers, folder)
    except Exception as error:  # a foreign loader may raise anything; the operator needs the folder and its words
        raise ConfigurationError(f"{folder}: transformers cannot load a processor: {_line(error)}") from error
    return found if hasattr(found, "get_attributes") else _parts(transformers, folder)


def _load(transformers: Any, folder: Path) -> Any:
    try:
        return transformers.AutoProcessor.from_pretrained(folder, **_OFFLINE)
    except ImportError:
        videoless = _without_videos(transformers, folder)
        if videoless is None:
            raise
        return videoless.from_pretrained(folder, **_OFFLINE)


def _parts(transformers: Any, folder: Path) -> Parts:
    """Each by itself; one that is not there is ``None``."""

    def part(auto: str) -> Any | None:
        try:
            return getattr(transformers, auto).from_pretrained(folder, **_OFFLINE)
        except (OSError, ValueError, KeyError, TypeError, ImportError):
            return None

    return Parts(part("AutoTokenizer"), part("AutoImageProcessor"), part("AutoFeatureExtractor"))


def _without_videos(transformers: Any, folder: Path) -> Any | None:
    """The folder's processor class without its video part, which alone has no backend but torchvision."""
    cls = getattr(transformers, _class_name(folder), None)
    if cls is None or not hasattr(cls, "get_attributes"):
        return None
    parts = [part for part in cls.get_attributes() if part != _VIDEO]
    if len(parts) == len(cls.get_attributes()):
        return None
    return type(cls.__name__, (cls,), {"get_attributes": classmethod(lambda _: parts)})


def _class_name(folder: Path) -> str:
    """The processor class that the folder's files name; empty where none does."""
    for name in _CONFIGS:
        path = folder / name
        if path.is_file():
            found = json.loads(path.read_bytes()).get("processor_class")
            if isinstance(found, str):
                return found
    return ""


def _line(error: Exception) -> str:
    """A foreign error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
