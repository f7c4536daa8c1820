"""A worker's child gives torch one thread, because siblings own the other cores; an examination does the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def as_on_a_worker() -> Iterator[Callable[[], None]]:
    """One thread for torch inside the block, the former number afterwards.

    Yields:
        what to call when a processor may have brought torch in.
    """
    former: list[int] = []

    def settle() -> None:
        torch: Any = sys.modules.get("torch")
        if torch is not None and not former:
            former.append(torch.get_num_threads())
            torch.set_num_threads(1)

    settle()
    try:
        yield settle
    finally:
        if former:
            sys.modules["torch"].set_num_threads(former[0])
