"""Settings that are said of every model or of one: ``VALUE`` and ``MODEL=VALUE``, separated by commas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from forebay.errors import ConfigurationError
from forebay.model import ModelSource

T = TypeVar("T")

EVERY = ""
"""The key of what is said of every model."""


def read_per_model(text: str, read: Callable[[str, str], T]) -> dict[str, T]:
    """What is said, by model.

    Args:
        text: what the operator wrote.
        read: makes a value of its text; it gets also whose it is, for its errors.

    Raises:
        ValueError: naming the model that has no name, or what is given twice.
    """
    found: dict[str, T] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, separator, value = (piece.strip() for piece in part.rpartition("="))
        if separator and not name:
            raise ValueError(f"{part!r} names no model")
        if name in found:
            raise ValueError(f"{name or 'every model'} has {found[name]} already, and {value} is given again")
        found[name] = read(value, name or "every model")
    return found


def check_models_are_there(what: str, said: Mapping[str, object], models: Sequence[ModelSource]) -> None:
    """Refuse what is said of a model that is not there: it is a typo.

    Raises:
        ConfigurationError: naming every such model with its value.
    """
    names = [model.name for model in models]
    strangers = [f"{name}={value}" for name, value in said.items() if name != EVERY and name not in names]
    if strangers:
        raise ConfigurationError(f"{what} {', '.join(strangers)}: not among the models ({', '.join(names) or 'none'})")


def written(said: Mapping[str, object] | Iterable[tuple[str, object]]) -> str:
    """The same as text."""
    return ",".join(f"{name}={value}" if name else str(value) for name, value in dict(said).items())
