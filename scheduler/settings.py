"""What a scheduler process needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.model import ModelSource
from forebay.processor_choice import ProcessorChoice
from forebay.settings import NodeSettings, read_list, setting, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings(NodeSettings):
    """Settings of ``forebay scheduler``."""

    model: ModelSource = setting("FOREBAY_MODEL", ModelSource.parse, option="--model")
    processors: ProcessorChoice = setting("FOREBAY_PROCESSOR", ProcessorChoice.parse, ProcessorChoice())
    """As the node's workers have it: a model whose engine has another name has that of its processor."""
    allowed_packages: tuple[str, ...] = setting("FOREBAY_ALLOW_PACKAGES", read_list, ())
    """Distributions whose engines may be loaded; empty for all that are installed."""
    pool_wait_s: int = setting("FOREBAY_POOL_WAIT_S", whole_number(0), 60)
    """How long to wait for the node's worker to make the pool."""
    drain_s: int = setting("FOREBAY_DRAIN_S", whole_number(0), 30)
    """How long a stopping scheduler goes on with what it has admitted."""
