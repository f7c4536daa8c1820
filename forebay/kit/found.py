"""The processor that is meant: by an installed package's entry point, or as ``module:Class`` while it is written."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from forebay.errors import ConfigurationError
from forebay.model import ModelSource
from forebay.plugins import load_processor
from forebay.processor import Processor, Tokenizer
from forebay.tokenizer import TOKENIZER_FILE, FileTokenizer


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A processor that was built, with the tokenizer that a worker would give it."""

    name: str
    processor: Processor
    tokenizer: Tokenizer | None


def find(name: str, folder: Path | None) -> Found:
    """Build the processor that ``name`` names.

    Args:
        name: an entry point of ``forebay.processors``, or ``module:Class``; modules of this folder are found too.
        folder: the model's, where it needs one.

    Raises:
        ConfigurationError: there is none, or it cannot be built.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module, colon, cls = name.partition(":")
    try:
        if colon:
            return _built(name, _class(module, cls), ModelSource(cls, folder))
        loaded = load_processor(ModelSource(name, folder))
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{name} cannot be built: {type(error).__name__}: {error}") from error
    return Found(name, loaded.processor, loaded.tokenizer)


def _class(module: str, name: str) -> type[Processor]:
    try:
        found = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise ConfigurationError(f"there is no module {error.name!r} here or installed") from error
        raise ConfigurationError(f"{module} needs {error.name!r}, which is not installed") from error
    if not (isinstance(found, type) and issubclass(found, Processor)):
        raise ConfigurationError(f"{module} has no Processor class {name!r}")
    return found


def _built(name: str, cls: type[Processor], model: ModelSource) -> Found:
    processor = cls(model)
    tokenizer = processor.tokenizer()
    if tokenizer is None and model.folder is not None and (model.folder / TOKENIZER_FILE).is_file():
        tokenizer = FileTokenizer.load(model.folder / TOKENIZER_FILE)
    return Found(name, processor, tokenizer)
