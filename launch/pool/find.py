"""Which pool an operator means."""

from __future__ import annotations

import os
from pathlib import Path

from forebay.errors import ConfigurationError
from forebay.settings import NodeSettings, load
from launch.folders import SHM

_NAMES = ("FOREBAY_RUN_DIR", "FOREBAY_DEPLOYMENT", "FOREBAY_NODE")


def find_pool(folder: Path, shm: Path = SHM, *, was_named: bool = False) -> Path:
    """The pool of a folder; where none was named and there is none, the only one that is on this machine.

    Raises:
        ConfigurationError: none, or several to choose from.
    """
    path = folder / "pool"
    others = sorted(shm.glob("forebay-*/pool"))
    if path.exists():
        return path
    if len(others) == 1 and not was_named:
        return others[0]
    choice = f"; there are: {', '.join(str(other.parent) for other in others)}" if others else ""
    raise ConfigurationError(f"no feature pool at {path}{choice}")


def is_named(given: str | None) -> bool:
    """Whether the operator said which pool is meant, by an option or by a name in the environment."""
    return bool(given) or any(name in os.environ for name in _NAMES)


def folder_of(given: str | None) -> Path:
    """The folder that was named, else the one that the node's processes use."""
    if given:
        return Path(given)
    return load(NodeSettings, {"FOREBAY_SECRET": "0" * 32}).folder  # looking needs no secret
