"""What a worker process needs to know."""

from __future__ import annotations

import os
from dataclasses import dataclass

from forebay.errors import ConfigurationError
from forebay.feature_dtypes import FeatureDTypes
from forebay.model import ModelSource
from forebay.processor_choice import ProcessorChoice
from forebay.settings import (
    NodeSettings,
    read_cores,
    read_flag,
    read_list,
    read_models,
    read_seconds,
    read_size,
    setting,
    whole_number,
)
from handoff.queue import LIMITS, Limits
from workers.item_limits import ItemLimits

_BEYOND_A_TASK_S = 10  # a child that is killed at its limit, and the parent that hears of it
_CORES_WORTH_PINNING = 4  # below this the scheduler of the kernel does better than we would


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(NodeSettings):
    """Settings of ``forebay worker``."""

    models: tuple[ModelSource, ...] = setting("FOREBAY_MODELS", read_models, option="--model")
    processors: ProcessorChoice = setting("FOREBAY_PROCESSOR", ProcessorChoice.parse, ProcessorChoice())
    """Entry points or ``module:Class``, for models whose processor has another name."""
    allowed_packages: tuple[str, ...] = setting("FOREBAY_ALLOW_PACKAGES", read_list, ())
    """Distributions whose processors may be loaded; empty for all that are installed."""
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
    video_salvage: bool = setting("FOREBAY_VIDEO_SALVAGE", read_flag, False)
    """Whether a damaged video is taken for the frames of it that decode, and its item says so."""
    events: bool = setting("FOREBAY_EVENTS", read_flag, False)
    """Whether Celery reports task events, which Flower shows."""
    soft_limit_s: int = setting("FOREBAY_SOFT_LIMIT_S", whole_number(1), int(LIMITS.soft_s))
    """How long a task may take; its request ends as ``time_limit``."""
    hard_limit_s: int = setting("FOREBAY_HARD_LIMIT_S", whole_number(2), int(LIMITS.hard_s))
    """How long a task may take before its child is killed, because it does not return to Python."""
    drain_s: int | None = setting("FOREBAY_DRAIN_S", whole_number(0), None)
    """How long the children may go on when the worker is to end; then they are killed. By default a task's time."""
    item_wall_s: float = setting("FOREBAY_ITEM_WALL_S", read_seconds, 30.0)
    """How long decoding one item may take; its request ends as ``media_too_slow``."""
    item_cpu_s: float = setting("FOREBAY_ITEM_CPU_S", read_seconds, 30.0)
    """How long it may compute."""
    item_memory_bytes: int = setting("FOREBAY_ITEM_MEMORY", read_size, 4 << 30)
    """How much memory it may take; 0 for no limit."""
    child_tasks: int = setting("FOREBAY_CHILD_TASKS", whole_number(1), LIMITS.child_tasks)
    """After so many tasks a child is replaced: codecs leak."""
    # Several times what a child with torch and a large model's processor has; a leak is found, a large picture is not.
    child_rss_bytes: int = setting("FOREBAY_CHILD_RSS", read_size, 4 << 30)
    """A child that has more memory of its own after a task is replaced; 0 for no limit."""

    def __post_init__(self) -> None:
        self.feature_dtypes.check(self.models)
        self.processors.applied_to(self.models)
        if self.soft_limit_s >= self.hard_limit_s:
            told = f"FOREBAY_SOFT_LIMIT_S={self.soft_limit_s} and FOREBAY_HARD_LIMIT_S={self.hard_limit_s}"
            raise ConfigurationError(f"{told}: the soft limit must come before the hard one")

    @property
    def limits(self) -> Limits:
        return Limits(self.soft_limit_s, self.hard_limit_s, self.child_tasks, self.child_rss_bytes)

    @property
    def grace_s(self) -> int:
        """Seconds from the first signal until what still runs is killed; by default all tasks come to their end."""
        return self.hard_limit_s + _BEYOND_A_TASK_S if self.drain_s is None else self.drain_s

    @property
    def item_limits(self) -> ItemLimits:
        return ItemLimits(self.item_wall_s, self.item_cpu_s, self.item_memory_bytes)

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """The models as a child loads them: each with the element type of its features."""
        return self.feature_dtypes.applied_to(self.processors.applied_to(self.models))

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
