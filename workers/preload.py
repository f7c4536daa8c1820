"""What children share with their parent: torch, imported once before the first fork."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence

from forebay.model import ModelSource
from forebay.plugins import needs

log = logging.getLogger(__name__)


def preload(models: Sequence[ModelSource]) -> None:
    """Import torch where a model's package needs it, and keep the garbage collector from writing to what is there.

    torch takes seconds to import and a hundred megabytes, which each child would need for itself; forked, a child has
    both for nothing, and one that takes a dead one's place is there the sooner. Nothing of it is run in the parent: its
    thread pools start with the first operation, and threads do not cross a fork. Call after ``one_thread_each``.

    What fails here fails again in the child, which tells it of the model that needs it.
    """
    if any(needs(model, "torch") for model in models):
        try:
            import torch  # noqa: F401  (for the children)
        except (ImportError, OSError) as error:
            log.info("torch is not imported ahead", extra={"reason": str(error)})
    gc.collect()
    gc.freeze()
