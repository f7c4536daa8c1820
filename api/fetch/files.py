"""``file:`` URLs: regular files below the roots that the deployment names, and nothing is told of any other."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from api.fetch.budget import Budget
from forebay.errors import Rejected


def read_file(url: str, param: str, roots: Sequence[Path], budget: Budget) -> bytes:
    """The bytes of a file.

    Raises:
        Rejected: no roots, or a file that is none, is not below one, or is too large. All but the last sound alike, so
            that nobody finds out what there is.
    """
    if not roots:
        raise Rejected("unsupported_source", f"{param}: file: URLs are not read here; send the bytes", param=param)
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or "\x00" in path or not path.startswith("/"):
        raise _not_there(param)
    for root in roots:
        data = _read_below(root, path, param, budget)
        if data is not None:
            return data
    raise _not_there(param)


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
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        budget.charge(param, found.st_size, found.st_size)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(found.st_size)
    finally:
        os.close(fd)


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
