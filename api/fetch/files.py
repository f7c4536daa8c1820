"""``file:`` URLs: regular files below the roots that the deployment names, and nothing is told of any other."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from api.fetch.address import MOST_CHARACTERS
from api.fetch.budget import Budget
from forebay.errors import Rejected

# urlsplit drops some of the control characters without a word; half of a surrogate pair names no file.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def read_file(url: str, param: str, roots: Sequence[Path], budget: Budget) -> bytes:
    """The bytes of a file.

    Raises:
        Rejected: no roots, or a file that is none, is not below one, or is too large. All but the last sound alike, so
            that nobody finds out what there is.
    """
    if not roots:
        raise Rejected("unsupported_source", f"{param}: file: URLs are not read here; send the bytes", param=param)
    path = _path_of(url)
    if path is None:
        raise _not_there(param)
    for root in roots:
        data = _read_below(root, path, param, budget)
        if data is not None:
            return data
    raise _not_there(param)


def _path_of(url: str) -> str | None:
    """The path that a URL names, as the system spells it; ``None`` for what names none."""
    if len(url) > MOST_CHARACTERS or _FORBIDDEN.search(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if parts.netloc not in ("", "localhost") or "\x00" in path or not path.startswith("/"):
        return None
    return path


def _read_below(root: Path, path: str, param: str, budget: Budget) -> bytes | None:
    """The file, if it lies below the root and no step of the way to it is a link; ``None`` otherwise."""
    prefix = f"{root}/"
    if not path.startswith(prefix):
        return None
    steps = path.removeprefix(prefix).split("/")
    if any(step in ("", ".", "..") for step in steps):
        return None
    try:
        fd = _open_below(root, steps)
    except (OSError, ValueError):  # the latter where the system has no spelling for a step
        return None
    try:
        return _read_open(fd, param, budget)
    finally:
        os.close(fd)


def _read_open(fd: int, param: str, budget: Budget) -> bytes | None:
    """What is in an open file; ``None`` for what is none, or does not let itself be read."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        return None
    budget.charge(param, found.st_size, found.st_size)
    try:
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(found.st_size)
    except OSError:
        budget.give_back(found.st_size)
        return None


def _open_below(root: Path, steps: Sequence[str]) -> int:
    """A file descriptor. Folder by folder, so that a link that is put there meanwhile is not followed either."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        # A pipe or a device must not hold the reader up before it is seen to be one.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_NONBLOCK if is_last else os.O_DIRECTORY)
        try:
            inner = os.open(step, flags, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _not_there(param: str) -> Rejected:
    return Rejected("media_unavailable", f"{param}: no such file may be read", param=param)
