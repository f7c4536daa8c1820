"""The names of the 1000 ImageNet classes, by class number."""

from __future__ import annotations

from importlib.resources import files


def read_labels() -> tuple[str, ...]:
    """One short name a class, in the order of the model's outputs."""
    text = files(__package__).joinpath("imagenet_labels.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())
