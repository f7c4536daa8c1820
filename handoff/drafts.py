"""Files that get their name only when they are whole, and what becomes of those that never did.

A draft is hidden, and locked by whoever writes it. One whose lock can be taken belongs to the dead.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MARK = ".draft-"
_YOUNG_S = 10.0  # between a draft's birth and its lock there is one system call


@contextmanager
def draft(path: Path) -> Iterator[tuple[Path, int]]:
    """A hidden file beside ``path`` and its descriptor. Whatever of it is still hidden at the end is removed."""
    hidden = path.with_name(f"{_MARK}{secrets.token_hex(4)}-{path.name}")
    fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield hidden, fd
    finally:
        os.close(fd)
        hidden.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file in one step: whoever reads it reads the old or the new.

    Raises:
        OSError: no room; the old one is still there.
    """
    with draft(path) as (hidden, fd):
        os.write(fd, data)
        hidden.rename(path)


def abandoned(folder: Path) -> list[Path]:
    """Drafts in a folder whose writer has died."""
    limit = time.time() - _YOUNG_S
    return [path for path in folder.glob(f"{_MARK}*") if _is_abandoned(path, limit)]


def _is_abandoned(path: Path, limit: float) -> bool:
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # it has got its name, or is gone
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(fd).st_mtime < limit
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
