"""Who is alive on this node, told by lock files: a lock that can be taken belongs to the dead.

A pid means nothing across containers and is reused; the kernel drops a file lock exactly when its holder ends.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay.errors import ConfigurationError
from handoff.drafts import draft, is_locked

_MARK_BYTES = 128
_WORK_BYTES = 64  # behind the mark
_IDLE = "idle"


def _path(folder: Path, owner: str) -> Path:
    return folder / f"owner-{owner}"


class Owner:
    """The life of one process, as others on the node can see it. Make it after a fork.

    Raises:
        ConfigurationError: no lock file can be made in the folder.
    """

    def __init__(self, folder: Path, role: str) -> None:
        self._take(folder, f"{role}-{os.getpid()}-{secrets.token_hex(4)}")

    @classmethod
    def named(cls, folder: Path, name: str) -> Owner:
        """A life whose name others know before it begins.

        Raises:
            ConfigurationError: somebody of that name lives, or no lock file can be made.
        """
        if is_alive(folder, name):
            raise ConfigurationError(f"{name} lives in {folder} already")
        owner = cls.__new__(cls)
        owner._take(folder, name)
        return owner

    def _take(self, folder: Path, name: str) -> None:
        self.id = name
        self._path = _path(folder, name)
        # Locked before it has its name: nobody can find it and see it unlocked.
        try:
            with draft(self._path) as (hidden, fd):
                hidden.rename(self._path)
                self._fd = os.dup(fd)
        except OSError as error:
            raise ConfigurationError(f"{folder}: no lock file can be made there: {error.strerror}") from error

    @contextmanager
    def marked(self, text: str) -> Iterator[None]:
        """Say for the time of the block what this life is at, for whoever finds that it ended there."""
        self._mark(text)
        try:
            yield
        finally:
            self._mark("")

    def _mark(self, text: str) -> None:
        with suppress(OSError):  # no room for a page: nobody will know, and that is all
            os.pwrite(self._fd, text.encode().ljust(_MARK_BYTES), 0)

    @property
    def folder(self) -> Path:
        """Where others of the node see it."""
        return self._path.parent

    @contextmanager
    def at_work(self, on: str) -> Iterator[None]:
        """Say for the time of the block whose work this life does, and afterwards that it does none.

        Args:
            on: ASCII; 64 characters at most.
        """
        self._work(on)
        try:
            yield
        finally:
            self._work(_IDLE)

    def _work(self, on: str) -> None:
        with suppress(OSError):  # as above; one of whom nothing is known counts as being at whatever it has begun
            os.pwrite(self._fd, on.encode().ljust(_WORK_BYTES), _MARK_BYTES)

    def disown(self) -> None:
        """In a child that was forked while this life lasted: it is the parent's, and ends with the parent."""
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        """End this life. Safe to call twice."""
        if self._fd >= 0:
            self._path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = -1


def marks_of(folder: Path, start: str) -> dict[str, str]:
    """What those were at whose names begin so, by name, as far as their lock files are still there."""
    marks = {}
    for path in folder.glob(f"owner-{start}*"):
        with suppress(FileNotFoundError):
            marks[path.name.removeprefix("owner-")] = _mark_in(path)
    return {owner: mark for owner, mark in marks.items() if mark}


def _mark_in(path: Path) -> str:
    return path.read_bytes()[:_MARK_BYTES].decode(errors="replace").strip(" \0")


def has_fresh_mark(folder: Path, owner: str, within_s: float) -> bool:
    """Whether it ended in the middle of something that it had marked, and so short a time ago."""
    path = _path(folder, owner)
    try:
        return bool(_mark_in(path)) and time.time() - path.stat().st_mtime < within_s
    except FileNotFoundError:
        return False


def is_alive(folder: Path, owner: str) -> bool:
    """Whether the process that calls itself ``owner`` still runs on this node."""
    try:
        fd = os.open(_path(folder, owner), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return is_locked(fd)
    finally:
        os.close(fd)


def is_at(folder: Path, owner: str, work: str) -> bool:
    """Whether an owner is alive and still at the ``work`` that it has begun.

    Whoever asks has read before that it had begun. An owner says what it is at before it begins, so one that says
    something else has left it. One that has said nothing is of an earlier release, or had no room to.
    """
    if not is_alive(folder, owner):
        return False
    try:
        told = _path(folder, owner).read_bytes()[_MARK_BYTES : _MARK_BYTES + _WORK_BYTES].decode().strip(" \0")
    except FileNotFoundError:
        return False
    return told in ("", work)


def the_living(folder: Path) -> list[str]:
    """Who holds a lock file now."""
    return [name for name in _names(folder) if is_alive(folder, name)]


def the_dead(folder: Path) -> list[str]:
    """Whose lock files are left, though nobody holds their locks."""
    return [name for name in _names(folder) if not is_alive(folder, name)]


def _names(folder: Path) -> list[str]:
    return [path.name.removeprefix("owner-") for path in folder.glob("owner-*")]


def bury_one(folder: Path, owner: str) -> bool:
    """Remove the lock file of a dead one; ``False`` when it lives after all, or somebody else was faster."""
    if is_alive(folder, owner):
        return False
    try:
        _path(folder, owner).unlink()
    except FileNotFoundError:
        return False
    return True
