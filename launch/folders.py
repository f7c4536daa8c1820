"""The folders of one run: shared memory on tmpfs, and files on disk. Both go when the run ends.

A run that was killed leaves its folders; the next run removes those whose lock nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

SHM = Path("/dev/shm")  # noqa: S108 - the tmpfs that every Linux has
_PREFIX = "forebay-up-"
_LOCK = "launcher.lock"


@dataclass(frozen=True, slots=True)
class Folders:
    """``shm`` holds the pool and lock files, ``disk`` the media, sockets and Redis' files."""

    name: str
    shm: Path
    disk: Path
    lock_fd: int

    @classmethod
    def make(cls) -> Folders:
        """New folders for this run, after removing those of runs that were killed."""
        remove_abandoned()
        name = f"{_PREFIX}{secrets.token_hex(4)}"
        shm, disk = SHM / name, Path(tempfile.gettempdir()) / name
        shm.mkdir(mode=0o700)
        # Locked before it has its name: no other launcher can find it and see it unlocked.
        hidden = shm / f".{_LOCK}"
        fd = os.open(hidden, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        hidden.rename(shm / _LOCK)
        disk.mkdir(mode=0o700)
        return cls(name, shm, disk, fd)

    def remove(self) -> None:
        """Leave nothing. Safe to call twice."""
        shutil.rmtree(self.disk, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)


def remove_abandoned() -> list[str]:
    """Remove the folders of runs whose launcher has died, and name them."""
    gone = [path.name for path in SHM.glob(f"{_PREFIX}*") if _is_abandoned(path)]
    for name in gone:
        shutil.rmtree(Path(tempfile.gettempdir()) / name, ignore_errors=True)
        shutil.rmtree(SHM / name, ignore_errors=True)
    return gone


def _is_abandoned(folder: Path) -> bool:
    try:
        fd = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False  # a run that is just making its folders, another user's, or no folder of ours
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
