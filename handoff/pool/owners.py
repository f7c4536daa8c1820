"""Who is alive on this node, told by lock files: a lock that can be taken belongs to the dead.

A pid means nothing across containers and is reused; the kernel drops a file lock exactly when its holder ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path


def _path(folder: Path, owner: str) -> Path:
    return folder / f"owner-{owner}"


class Owner:
    """The life of one process, as others on the node can see it. Make it after a fork."""

    def __init__(self, folder: Path, role: str) -> None:
        self.id = f"{role}-{os.getpid()}-{secrets.token_hex(4)}"
        self._path = _path(folder, self.id)
        # Locked before it has its name: nobody can find it and see it unlocked.
        hidden = folder / f".{self._path.name}"
        self._fd = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        hidden.rename(self._path)

    def close(self) -> None:
        """End this life. Safe to call twice."""
        if self._fd >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1


def is_alive(folder: Path, owner: str) -> bool:
    """Whether the process that calls itself ``owner`` still runs on this node."""
    try:
        fd = os.open(_path(folder, owner), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def bury(folder: Path) -> list[str]:
    """Remove the lock files of the dead and name them."""
    names = [path.name.removeprefix("owner-") for path in folder.glob("owner-*")]
    dead = [name for name in names if not is_alive(folder, name)]
    for name in dead:
        with suppress(FileNotFoundError):
            _path(folder, name).unlink()
    return dead
