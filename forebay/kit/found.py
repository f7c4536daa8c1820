"""The processor that is meant: by an installed package's entry point, or as ``module:Class`` while it is written."""

from __future__ import annotations

from pathlib import Path

from forebay.errors import ConfigurationError
from forebay.model import ModelSource
from forebay.plugins import LoadedProcessor, load_processor
from forebay.processor import WorkerStart


def find(name: str, folder: Path | None) -> LoadedProcessor:
    """Build the processor that ``name`` names, and start it as a worker's child does.

    Args:
        name: an entry point of ``forebay.processors``, or ``module:Class``; modules of this folder are found too.
        folder: the model's, where it needs one.

    Raises:
        ConfigurationError: there is none, or it cannot be built or started.
    """
    _, colon, cls = name.partition(":")
    loaded = load_processor(ModelSource(cls or name, folder, processor=name if colon else ""))
    try:
        loaded.processor.start_worker(WorkerStart(0, ()))
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{name} fails to start: {type(error).__name__}: {error}") from error
    return loaded
