"""Which processor each model has, where it is not the one of its own name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.errors import ConfigurationError
from forebay.model import ModelSource
from forebay.per_model import EVERY, check_models_are_there, read_per_model, written


@dataclass(frozen=True, slots=True)
class ProcessorChoice:
    """Entry points or ``module:Class``, by model."""

    by_model: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ProcessorChoice:
        """Read ``PROCESSOR`` and ``MODEL=PROCESSOR``, separated by commas.

        Raises:
            ValueError: naming what is given twice, or is no name.
        """
        return cls(read_per_model(text, _read))

    def __str__(self) -> str:
        return written(self.by_model)

    def applied_to(self, models: Sequence[ModelSource]) -> tuple[ModelSource, ...]:
        """The models, each with its processor.

        Raises:
            ConfigurationError: it is said of a model that is not there, or of none in particular though there are
                several.
        """
        check_models_are_there("processor", self.by_model, models)
        general = self.by_model.get(EVERY, "")
        if general and len(models) > 1:
            raise ConfigurationError(f"processor {general}: of which of {len(models)} models? Use MODEL={general}")
        return tuple(replace(one, processor=self.by_model.get(one.name, general)) for one in models)

    def of(self, model: ModelSource) -> ModelSource:
        """One of the models, with its processor; what is said of others is none of its business."""
        return replace(model, processor=self.by_model.get(model.name, self.by_model.get(EVERY, "")))


def _read(text: str, whose: str) -> str:
    module, colon, name = text.partition(":")
    if not text or (colon and not (module and name)):
        raise ValueError(f"{whose} cannot have {text!r}; a processor's name or module:Class was expected")
    return text
