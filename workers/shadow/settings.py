"""What a shadow needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.errors import ConfigurationError
from forebay.feature_dtypes import FeatureDTypes
from forebay.model import ModelSource
from forebay.processor_choice import ProcessorChoice
from forebay.settings import (
    SharedSettings,
    read_flag,
    read_list,
    read_models,
    read_seconds,
    read_size,
    setting,
    whole_number,
)
from handoff.queue import LIMITS
from workers.item_limits import ItemLimits


def read_share(text: str) -> float:
    """A share of requests, above 0 and at most 1."""
    share = float(text)
    if not 0 < share <= 1:
        raise ValueError("a number above 0 and at most 1 was expected")
    return share


def _read_tolerance(text: str) -> float:
    error = float(text)
    if not 0 <= error < float("inf"):
        raise ValueError("a number of at least 0 was expected")
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSettings(SharedSettings):
    """Settings of ``forebay shadow run``."""

    models: tuple[ModelSource, ...] = setting("FOREBAY_MODELS", read_models, option="--model")
    processors: ProcessorChoice = setting("FOREBAY_PROCESSOR", ProcessorChoice.parse, ProcessorChoice())
    allowed_packages: tuple[str, ...] = setting("FOREBAY_ALLOW_PACKAGES", read_list, ())
    feature_dtypes: FeatureDTypes = setting("FOREBAY_FEATURE_DTYPE", FeatureDTypes.parse, FeatureDTypes())
    share: float = setting("FOREBAY_SHADOW_SHARE", read_share, 0.01)
    """Of the model's requests, how many are prepared a second time: 0.01 is one in a hundred."""
    max_bytes: int = setting("FOREBAY_SHADOW_BYTES", read_size, 32 << 20)
    """Requests with larger features are passed over."""
    tolerance: float = setting("FOREBAY_SHADOW_TOLERANCE", _read_tolerance, 0.0)
    """An absolute error up to which values are equal."""
    video_salvage: bool = setting("FOREBAY_VIDEO_SALVAGE", read_flag, False)
    soft_limit_s: int = setting("FOREBAY_SOFT_LIMIT_S", whole_number(1), int(LIMITS.soft_s))
    item_wall_s: float = setting("FOREBAY_ITEM_WALL_S", read_seconds, 30.0)
    item_cpu_s: float = setting("FOREBAY_ITEM_CPU_S", read_seconds, 30.0)
    item_memory_bytes: int = setting("FOREBAY_ITEM_MEMORY", read_size, 4 << 30)

    def __post_init__(self) -> None:
        if len(self.models) != 1:
            raise ConfigurationError(f"a shadow is of one model, and {len(self.models)} are given")
        self.feature_dtypes.check(self.models)
        self.processors.applied_to(self.models)

    @property
    def model(self) -> ModelSource:
        [model] = self.feature_dtypes.applied_to(self.processors.applied_to(self.models))
        return model

    @property
    def item_limits(self) -> ItemLimits:
        return ItemLimits(self.item_wall_s, self.item_cpu_s, self.item_memory_bytes)
