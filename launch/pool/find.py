"""Which pool an operator means."""

from __future__ import annotations

from pathlib import Path

from forebay.errors import ConfigurationError
from forebay.settings import NodeSettings, load
from launch.folders import SHM


def find_pool(folder: Path, shm: Path = SHM) -> Path:
    """The pool of a folder; where there is none, the only one that a deployment on this machine has.

    Raises:
        ConfigurationError: none, or several to choose from.
    """
    path = folder / "pool"
    others = sorted(shm.glob("forebay-*/pool"))
    if path.exists():
        return path
    if len(others) == 1:
        return others[0]
    choice = f"; there are: {', '.join(str(other.parent) for other in others)}" if others else ""
    raise ConfigurationError(f"no feature pool at {path}{choice}")


def folder_of(given: str | None) -> Path:
    """The folder that was named, else the one that the node's processes use."""
    if given:
        return Path(given)
    return load(NodeSettings, {"FOREBAY_SECRET": "0" * 32}).folder  # looking needs no secret
