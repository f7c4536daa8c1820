"""Finding model packages: processors and engines are entry points, looked up by the model's name.

``forebay.processors`` names ``Processor`` classes, ``forebay.engines`` names ``Engine`` classes. Nothing is imported
until a model is asked for, so a broken package harms only its own model.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from pathlib import Path
from types import ModuleType
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
_MOST_FILES = 1000


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


class BrokenPackageError(ConfigurationError):
    """A package whose own code fails: a fault of its author, which need not harm the other models."""


def load_processor(model: ModelSource, allowed: Sequence[str] = ()) -> LoadedProcessor:
    """Import, build and describe the processor of a model. Without a tokenizer of its own it gets the folder's.

    Args:
        model: whose.
        allowed: the distributions whose processors may be loaded; empty for all that are installed.

    Raises:
        BrokenPackageError: its package cannot be imported, fails in being built, will not do with the model's folder,
            or takes videos and does not say which of their frames.
        ConfigurationError: no such processor, one that is not allowed, or a feature dtype that it does not offer.
    """
    point = _point(model)
    _check_allowed(point, allowed)
    cls: type[Processor] = _load(point, Processor)
    _check_dtype(cls, model)
    try:
        return _built(cls, point, model)
    except ConfigurationError as error:  # of a folder or a setting; it says for itself what is wrong
        raise BrokenPackageError(str(error)) from error
    except (Exception, SystemExit) as error:  # a guest's constructor may raise anything
        what = f"{type(error).__name__}: {error}"
        raise BrokenPackageError(f"model {model.name!r}: its processor {point.value} fails to start: {what}") from error


def _built(cls: type[Processor], point: EntryPoint, model: ModelSource) -> LoadedProcessor:
    processor = cls.build(model)
    capabilities = processor.capabilities()
    _check_sampling(cls, capabilities, model)
    package, version = _distribution(point)
    config = {"class": point.value, "config": processor.config(), "feature_dtype": model.feature_dtype}
    fingerprint = Fingerprint.of(model.name, package, version, config).text
    tokenizer = processor.tokenizer()
    if tokenizer is None and model.folder is not None and capabilities.needs_prompt_tokens:
        tokenizer = FileTokenizer.load(model.file(TOKENIZER_FILE))
    template = None if model.folder is None else ChatTemplate.find(model.folder)
    return LoadedProcessor(model.name, processor, capabilities, fingerprint, tokenizer, template)


def needs(model: ModelSource, library: str) -> bool:
    """Whether the package of a model's processor names ``library`` among what it needs. Nothing is imported.

    Of a class that was named by its module, and of a model that no package offers, nobody knows.
    """
    name = model.processor or model.name
    packages = [point.dist for point in entry_points(group=PROCESSORS) if point.name == name and point.dist]
    wanted = [one for package in packages for one in package.requires or ()]
    return any(_canonical(found[0]) == library for one in wanted if (found := re.match(r"[\w.-]+", one)))


def engine_class(model: ModelSource, allowed: Sequence[str] = ()) -> type[Engine] | None:
    """The engine that runs a model; ``None`` when no package brings one or it needs a folder that was not given.

    It is the one of the model's own name, else the one of its processor's.

    Raises:
        ConfigurationError: it is of a distribution that is not among the ``allowed``, cannot be imported, or is none.
    """
    offered = names(ENGINES)
    name = next((one for one in (model.name, model.processor) if one in offered), None)
    if name is None:
        return None
    point = _find(ENGINES, name)
    _check_allowed(point, allowed)
    cls: type[Engine] = _load(point, Engine)
    return None if cls.needs_folder and model.folder is None else cls


def _point(model: ModelSource) -> EntryPoint:
    """The entry point of a model's processor, or one made of the ``module:Class`` that was given for it."""
    if ":" not in model.processor:
        return _find(PROCESSORS, model.processor or model.name)
    here = str(Path.cwd())
    if here not in sys.path:  # an installed command does not look there, and whoever writes the class is there
        sys.path.insert(0, here)
    return EntryPoint(model.name, model.processor, PROCESSORS)


def _check_allowed(point: EntryPoint, allowed: Sequence[str]) -> None:
    if not allowed or point.dist is None:  # a module:Class was named by the operator
        return
    if _canonical(point.dist.name) not in map(_canonical, allowed):
        told = ", ".join(allowed)
        raise ConfigurationError(f"{point.name!r} is of {point.dist.name}, which is not allowed; allowed are: {told}")


def _canonical(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _find(group: str, name: str) -> EntryPoint:
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        known = ", ".join(names(group)) or "none"
        raise ConfigurationError(f"no package offers {name!r} in {group}; installed: {known}")
    if len({point.value for point in found}) > 1:
        packages = ", ".join(sorted(point.dist.name if point.dist else point.value for point in found))
        raise ConfigurationError(f"several packages offer {name!r} in {group}: {packages}")
    return found[0]


def _load(point: EntryPoint, base: type) -> Any:
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # a guest's import may raise anything; the operator needs its name
        what = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise BrokenPackageError(f"{point.group}: {point.name} ({point.value}) cannot be imported: {what}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise BrokenPackageError(f"{point.group}: {point.name} ({point.value}) is not a {base.__name__} class")
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
    """Name and version of where a processor comes from; of one that is no distribution's, its source is the version."""
    if point.dist is not None:
        return point.dist.name, point.dist.version
    top = point.module.partition(".")[0]
    return top, f"source {_digest_of(sys.modules[point.module], sys.modules[top])}"


def _digest_of(module: ModuleType, top: ModuleType) -> str:
    """What the class' module says, and the files of its package; an author changes them between two starts."""
    own = Path(module.__file__ or "")
    if top.__file__ is None:  # a namespace has no folder of its own
        files = sorted(own.parent.glob("*.py"))
    else:
        files = sorted(Path(top.__file__).parent.rglob("*.py")) if hasattr(top, "__path__") else []
    digest = hashlib.sha256()
    for file in [own, *files[:_MOST_FILES]]:
        with suppress(OSError):  # an editor's link to nowhere
            content = file.read_bytes()
            digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
