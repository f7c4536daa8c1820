"""Signs of life while a step of the engine lasts: a second thread speaks for the loop.

A step may take longer than a lease. A loop that stands still for longer than any step is taken for dead all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONGEST_STEP_S = 120.0
_WAIT_AT_END_S = 1.0  # for a call under way; without Redis it may take longer, and nobody needs it any more


@contextmanager
def keeping(keep: Callable[[], object], every_s: float) -> Iterator[None]:
    """Call ``keep`` now and then from another thread, for the time of the block."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            keep()

    thread = threading.Thread(target=run, name="keeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_WAIT_AT_END_S)
