"""What the one-machine run needs to know; the rest it chooses itself and hands to its parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forebay.feature_dtypes import FeatureDTypes
from forebay.model import ModelSource
from forebay.processor_choice import ProcessorChoice
from forebay.settings import (
    read_cores,
    read_file_name,
    read_flag,
    read_level,
    read_list,
    read_models,
    read_name,
    read_pool_size,
    read_port,
    read_redis_url,
    read_size,
    setting,
    whole_number,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """Settings of ``forebay up``."""

    models: tuple[ModelSource, ...] = setting("FOREBAY_MODELS", read_models, ())
    processors: ProcessorChoice = setting("FOREBAY_PROCESSOR", ProcessorChoice.parse, ProcessorChoice())
    """Entry points or ``module:Class``, for models whose processor has another name."""
    allowed_packages: tuple[str, ...] = setting("FOREBAY_ALLOW_PACKAGES", read_list, ())
    """Distributions whose processors may be loaded; empty for all that are installed."""
    feature_dtypes: FeatureDTypes = setting("FOREBAY_FEATURE_DTYPE", FeatureDTypes.parse, FeatureDTypes())
    redis_url: str | None = setting("REDIS_URL", read_redis_url, None)
    deployment: str | None = setting("FOREBAY_DEPLOYMENT", read_name, None)
    """Name before every key. On a Redis of somebody else's, a run without one takes a name of its own and, when it
    ends, its keys with it; a named one finds its requests again."""
    host: str = setting("FOREBAY_HOST", str, "127.0.0.1")
    port: int = setting("FOREBAY_PORT", read_port, 8000)
    api_keys: Path | None = setting("FOREBAY_API_KEYS", read_file_name, None)
    allow_open: bool = setting("FOREBAY_ALLOW_OPEN", read_flag, False)
    workers: int | None = setting("FOREBAY_WORKERS", whole_number(1), None)
    cores: tuple[int, ...] = setting("FOREBAY_CORES", read_cores, ())
    pool_bytes: int = setting("FOREBAY_POOL_BYTES", read_pool_size, 1 << 30)
    cache_bytes: int | None = setting("FOREBAY_CACHE_BYTES", read_size, None)
    huge_pages: bool = setting("FOREBAY_HUGE_PAGES", read_flag, False)
    numa_node: int | None = setting("FOREBAY_NUMA_NODE", whole_number(0), None)
    data_dir: Path | None = setting("FOREBAY_DATA_DIR", Path, None)
    flower: bool = setting("FOREBAY_FLOWER", read_flag, True)
    log_level: str = setting("FOREBAY_LOG_LEVEL", read_level, "WARNING")

    @property
    def sources(self) -> tuple[ModelSource, ...]:
        """The models, each with its processor."""
        return self.processors.applied_to(self.models)
