"""A guest's error in one line: what was raised, and where in the guest's own code."""

from __future__ import annotations

import traceback
from pathlib import Path

from forebay.errors import Rejected

_OURS = [Path(__file__).parents[1] / room for room in ("forebay", "handoff", "workers", "launch")]


def outcome_of(error: Exception) -> str:
    """An error in one line; what it was raised in, unless that is nobody's but Forebay's."""
    code = f"{error.code}: " if isinstance(error, Rejected) else ""
    return f"{type(error).__name__}: {code}{error}{_place(error)}"


def _place(error: Exception) -> str:
    """The innermost line of the guest's that led to it, as `` (processor.py:41 in process_item)``."""
    frames = traceback.extract_tb(error.__traceback__)
    guests = [frame for frame in frames if not _is_known(Path(frame.filename))]
    if not guests:
        return ""
    last = guests[-1]
    return f" ({Path(last.filename).name}:{last.lineno} in {last.name})"


def _is_known(path: Path) -> bool:
    """Whether it is Forebay's own, or a library's that the guest calls."""
    return any(map(path.is_relative_to, _OURS)) or "site-packages" in path.parts or path.name.startswith("<")
