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
from dataclasses import dataclass
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
        left = memoryview(data)
        while left:  # a file system that is nearly full takes a part
            left = left[os.write(fd, left) :]
        hidden.rename(path)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A draft whose writer has died, and the bytes that it takes."""

    path: Path
    size_bytes: int

    def remove(self) -> bool:
        """Take it away; ``False`` when somebody else was faster."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True


def abandoned(folder: Path) -> list[Abandoned]:
    """Drafts in a folder whose writer has died."""
    looked_at = [_look(path) for path in folder.glob(f"{_MARK}*")]
    return [one for one in looked_at if one is not None]


def _look(path: Path) -> Abandoned | None:
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # it has got its name, or is gone
        return None
    try:
        stat = os.fstat(fd)
        if is_locked(fd) or stat.st_mtime > time.time() - _YOUNG_S:
            return None
        return Abandoned(path, stat.st_blocks * 512)
    finally:
        os.close(fd)


def is_locked(fd: int) -> bool:
    """Whether somebody holds the lock of a file. Looks are shared, so that nobody takes another's look for a lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
