"""A tmpfs of a few megabytes that only one test sees: a child of pytest in a mount namespace of its own.

The child may fill it, shrink it, cut its files off, and die of it; what it finds out comes back as a value.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support.forks import fork

_CLONE_NEWNS = 0x00020000
_MS_REC_PRIVATE = (1 << 14) | (1 << 18)
_LONGEST_S = 60
MIB = 1 << 20


@dataclass(frozen=True)
class Place:
    """The folder on the small tmpfs, inside the child."""

    folder: Path

    def remount(self, **options: Any) -> None:
        """Give the file system another size, or another number of files."""
        said = ",".join(["remount", *(f"{name}={value}" for name, value in options.items())])
        subprocess.run(["mount", "-o", said, str(self.folder)], check=True)

    def fill(self, leave: int = 0) -> Path:
        """Somebody else's file, which takes all that is free but so many bytes."""
        stat = os.statvfs(self.folder)
        path = self.folder / "of somebody else"
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, stat.f_bavail * stat.f_frsize - leave)
        return path

    @property
    def free_bytes(self) -> int:
        stat = os.statvfs(self.folder)
        return stat.f_bavail * stat.f_frsize


def within(size: str, folder: Path, act: Callable[[Place], Any], **options: Any) -> Any:
    """What ``act`` returns, done in a child that sees a tmpfs of that size at ``folder``."""
    reading, writing = os.pipe()
    pid = fork()
    if not pid:
        _be_the_child(writing, size, folder, act, options)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        pytest.fail(f"the process died of {signal.Signals(os.WTERMSIG(status)).name}")
    kind, value = pickle.loads(said)
    if kind == "refused":
        _do_without(value)
    assert kind == "done", value
    return value


def _do_without(why: str) -> NoReturn:
    """Skip at home, fail in CI."""
    message = f"no mount namespace can be made here: {why}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def _be_the_child(
    writing: int, size: str, folder: Path, act: Callable[[Place], Any], options: dict[str, Any]
) -> NoReturn:
    said: tuple[str, Any] = ("raised", "nothing was said")
    try:
        signal.alarm(_LONGEST_S)
        why = _mount(size, folder, options)
        said = ("refused", why) if why else ("done", act(Place(folder)))
    except BaseException:
        said = ("raised", traceback.format_exc())
    finally:
        sys.stdout.flush()
        os.write(writing, pickle.dumps(said))
        os._exit(0)  # nothing of pytest's is to run twice


def _mount(size: str, folder: Path, options: dict[str, Any]) -> str:
    """Why there can be none; empty when it is mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(None, b"/", None, _MS_REC_PRIVATE, None):
        return os.strerror(ctypes.get_errno())
    said = ",".join([f"size={size}", *(f"{name}={value}" for name, value in options.items())])
    mounted = libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, said.encode())
    return os.strerror(ctypes.get_errno()) if mounted else ""
