"""What a worker process needs to know."""

from __future__ import annotations

import os
from dataclasses import dataclass

from forebay.feature_dtypes import FeatureDTypes
from forebay.model import ModelSource
from forebay.settings import NodeSettings, read_cores, read_flag, read_models, read_size, setting, whole_number

_CORES_WORTH_PINNING = 4  # below this the scheduler of the kernel does better than we would


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(NodeSettings):
    """Settings of ``forebay worker``."""

    models: tuple[ModelSource, ...] = setting("FOREBAY_MODELS", read_models, option="--model")
    feature_dtypes: FeatureDTypes = setting("FOREBAY_FEATURE_DTYPE", FeatureDTypes.parse, FeatureDTypes())
    workers: int = setting("FOREBAY_WORKERS", whole_number(1), lambda: min(8, len(os.sched_getaffinity(0))))
    cores: tuple[int, ...] = setting("FOREBAY_CORES", read_cores, ())
    huge_pages: bool = setting("FOREBAY_HUGE_PAGES", read_flag, False)
    """Whether a new pool lies in huge pages; the kernel must give them to shared memory."""
    numa_node: int | None = setting("FOREBAY_NUMA_NODE", whole_number(0), None)
    """Where the memory of a new pool lies; ``None`` leaves it to the kernel."""
    cache_bytes: int | None = setting("FOREBAY_CACHE_BYTES", read_size, None)
    """What the pool keeps of features that nobody holds, in case they are asked for again; 0 turns the cache off."""
    max_prompt_tokens: int = setting("FOREBAY_MAX_PROMPT_TOKENS", whole_number(0), 0)
    """Longest prompt with its media; 0 leaves it to what each model says of itself."""
    events: bool = setting("FOREBAY_EVENTS", read_flag, False)
    """Whether Celery reports task events, which Flower shows."""

    def __post_init__(self) -> None:
        self.feature_dtypes.check(self.models)

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """The models as a child loads them: each with the element type of its features."""
        return self.feature_dtypes.applied_to(self.models)

    @property
    def cache_budget(self) -> int:
        """Bytes of the pool; by default a quarter of it."""
        return self.pool_bytes // 4 if self.cache_bytes is None else self.cache_bytes

    @property
    def partition(self) -> tuple[int, ...]:
        """The cores that the children share; empty to leave them unpinned."""
        if self.cores:
            return self.cores
        own = tuple(sorted(os.sched_getaffinity(0)))
        return own if len(own) >= _CORES_WORTH_PINNING else ()
