"""Which element type the features of each model have, as the operator said it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.dtypes import DType
from forebay.errors import ConfigurationError
from forebay.model import ModelSource

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
        named: dict[str, DType] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, separator, dtype = (piece.strip() for piece in part.rpartition("="))
            if separator and not name:
                raise ValueError(f"{part!r} names no model")
            if name in named:
                raise ValueError(f"{name or 'every model'} has {named[name]} already, and {dtype} is given again")
            named[name] = _read(dtype, name or "every model")
        return cls(named.pop("", DType.FLOAT32), named)

    def __str__(self) -> str:
        return ",".join([self.general, *(f"{name}={dtype}" for name, dtype in self.by_model.items())])

    def check(self, models: Sequence[ModelSource]) -> None:
        """Refuse a dtype for a model that is not there: it is a typo.

        Raises:
            ConfigurationError: naming every such model with its dtype.
        """
        names = [model.name for model in models]
        strangers = [f"{name}={dtype}" for name, dtype in self.by_model.items() if name not in names]
        if strangers:
            raise ConfigurationError(
                f"feature dtype {', '.join(strangers)}: not among the models ({', '.join(names) or 'none'})"
            )

    def applied_to(self, models: Sequence[ModelSource]) -> tuple[ModelSource, ...]:
        """The models, each with its own element type."""
        return tuple(replace(one, feature_dtype=self.by_model.get(one.name, self.general)) for one in models)


def _read(text: str, whose: str) -> DType:
    if text not in CHOICES:
        raise ValueError(f"{whose} cannot have {text!r}; one of {', '.join(CHOICES)} was expected")
    return DType(text)
