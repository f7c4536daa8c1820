"""Which element type the features of each model have, as the operator said it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.dtypes import DType
from forebay.model import ModelSource
from forebay.per_model import EVERY, check_models_are_there, read_per_model, written

CHOICES = (DType.FLOAT32, DType.BFLOAT16, DType.UINT8)
"""What may be asked for; ``int64`` is for ids and positions."""


@dataclass(frozen=True, slots=True)
class FeatureDTypes:
    """The element type of every model's features, but for the models that have one of their own."""

    general: DType = DType.FLOAT32
    by_model: Mapping[str, DType] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> FeatureDTypes:
        """Read ``DTYPE`` and ``MODEL=DTYPE``, separated by commas.

        Raises:
            ValueError: naming the model and the dtype that cannot be, or what is given twice.
        """
        named = read_per_model(text, _read)
        return cls(named.pop(EVERY, DType.FLOAT32), named)

    def __str__(self) -> str:
        return written({EVERY: self.general, **self.by_model})

    def check(self, models: Sequence[ModelSource]) -> None:
        """Refuse a dtype for a model that is not there: it is a typo.

        Raises:
            ConfigurationError: naming every such model with its dtype.
        """
        check_models_are_there("feature dtype", self.by_model, models)

    def applied_to(self, models: Sequence[ModelSource]) -> tuple[ModelSource, ...]:
        """The models, each with its own element type."""
        return tuple(replace(one, feature_dtype=self.by_model.get(one.name, self.general)) for one in models)


def _read(text: str, whose: str) -> DType:
    if text not in CHOICES:
        raise ValueError(f"{whose} cannot have {text!r}; one of {', '.join(CHOICES)} was expected")
    return DType(text)
