"""Finding model packages: processors and engines are entry points, looked up by the model's name.

``forebay.processors`` names ``Processor`` classes, ``forebay.engines`` names ``Engine`` classes. Nothing is imported
until a model is asked for, so a broken package harms only its own model.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from typing import Any

from forebay.chat_template import ChatTemplate
from forebay.engine import Engine
from forebay.errors import ConfigurationError, Failed, Rejected
from forebay.features import Modality
from forebay.media import Clip
from forebay.model import ModelSource
from forebay.processor import Capabilities, Fingerprint, Processor, Tokenizer, TypedExtensions
from forebay.tokenizer import TOKENIZER_FILE, FileTokenizer

PROCESSORS = "forebay.processors"
ENGINES = "forebay.engines"


@dataclass(frozen=True, slots=True)
class LoadedProcessor:
    """A processor ready to work, with what is asked of it for every request."""

    name: str
    processor: Processor
    capabilities: Capabilities
    fingerprint: str
    tokenizer: Tokenizer | None
    template: ChatTemplate | None = None

    @property
    def has_usual_flow(self) -> bool:
        """Whether it leaves the flow to Forebay."""
        return type(self.processor).process is Processor.process

    @property
    def makes_items_alone(self) -> bool:
        """Whether what it makes of an item may serve other requests: it says so, and has not taken over the flow."""
        return self.capabilities.cacheable and self.has_usual_flow

    def choose_frames(self, clip: Clip, extensions: TypedExtensions, param: str) -> tuple[int, ...]:
        """Which frames the processor wants of a video.

        Raises:
            Rejected: none can be chosen; the item is named.
            Failed: it wants frames that are not there.
        """
        try:
            indices = tuple(self.processor.sample_frames(clip, extensions))
        except Rejected as error:
            raise Rejected(error.code, error.message, param=error.param or param, status=error.status) from error
        is_ascending = all(before <= after for before, after in pairwise(indices))
        if not indices or not is_ascending or indices[0] < 0 or indices[-1] >= clip.frames:
            wanted = ", ".join(map(str, indices[:8]))
            message = f"the processor wants frames [{wanted}] of a video with {clip.frames}: ascending ones are there"
            raise Failed("invalid_result", message)
        return indices


def names(group: str) -> list[str]:
    """The models that installed packages offer in ``group``."""
    return sorted({point.name for point in entry_points(group=group)})


def load_processor(model: ModelSource) -> LoadedProcessor:
    """Import, build and describe the processor of a model. Without a tokenizer of its own it gets the folder's.

    Raises:
        ConfigurationError: no such processor, it cannot be built, it does not offer the model's feature dtype, or it
            takes videos and does not say which of their frames.
    """
    point = _find(PROCESSORS, model.name)
    cls: type[Processor] = _load(point, Processor)
    _check_dtype(cls, model)
    processor = cls(model)
    capabilities = processor.capabilities()
    _check_sampling(cls, capabilities, model)
    package, version = _distribution(point)
    config = {"config": processor.config(), "feature_dtype": model.feature_dtype}
    fingerprint = Fingerprint.of(model.name, package, version, config).text
    tokenizer = processor.tokenizer()
    if tokenizer is None and model.folder is not None and capabilities.needs_prompt_tokens:
        tokenizer = FileTokenizer.load(model.file(TOKENIZER_FILE))
    template = None if model.folder is None else ChatTemplate.find(model.folder)
    return LoadedProcessor(model.name, processor, capabilities, fingerprint, tokenizer, template)


def engine_class(model: ModelSource) -> type[Engine] | None:
    """The engine that runs a model; ``None`` when no package brings one or it needs a folder that was not given."""
    if model.name not in names(ENGINES):
        return None
    cls: type[Engine] = _load(_find(ENGINES, model.name), Engine)
    return None if cls.needs_folder and model.folder is None else cls


def _find(group: str, name: str) -> EntryPoint:
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        known = ", ".join(names(group)) or "none"
        raise ConfigurationError(f"no package offers {name!r} in {group}; installed: {known}")
    if len({point.value for point in found}) > 1:
        packages = ", ".join(sorted(_distribution(point)[0] for point in found))
        raise ConfigurationError(f"several packages offer {name!r} in {group}: {packages}")
    return found[0]


def _load(point: EntryPoint, base: type) -> Any:
    try:
        loaded = point.load()
    except Exception as error:  # a guest's import may raise anything; the operator needs its name
        raise ConfigurationError(f"{point.group}: {point.name} ({point.value}) cannot be imported: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise ConfigurationError(f"{point.group}: {point.name} ({point.value}) is not a {base.__name__} class")
    return loaded


def _check_dtype(cls: type[Processor], model: ModelSource) -> None:
    if model.feature_dtype not in cls.feature_dtypes:
        offered = ", ".join(cls.feature_dtypes)
        raise ConfigurationError(
            f"model {model.name!r}: its processor writes no {model.feature_dtype} features; it offers: {offered}"
        )


def _check_sampling(cls: type[Processor], capabilities: Capabilities, model: ModelSource) -> None:
    if Modality.VIDEO in capabilities.modalities and cls.sample_frames is Processor.sample_frames:
        raise ConfigurationError(f"model {model.name!r}: its processor takes videos, but has no sample_frames")


def _distribution(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else (point.value, "0")
