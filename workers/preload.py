"""What children share with their parent: torch, imported once before the first fork."""

from __future__ import annotations

import gc


def preload() -> None:
    """Import torch, and keep the garbage collector from writing to what has been imported.

    torch takes seconds to import and a hundred megabytes, which each child would need for itself; forked, a child has
    both for nothing, and one that takes a dead one's place is there the sooner. Nothing of it is run in the parent: its
    thread pools start with the first operation, and threads do not cross a fork. Call after ``one_thread_each``.
    """
    import torch  # noqa: F401  (for the children)

    gc.collect()
    gc.freeze()
