"""One supervised process: how it is started, how it says that it is ready, how it ends with all it started."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Part:
    """What to run. A part without ``is_ready`` reports readiness over its notification socket."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    pass_fds: Sequence[int] = ()
    is_ready: Callable[[], bool] | None = None
    stop_signal: int = signal.SIGTERM


class Process:
    """A started part."""

    def __init__(self, part: Part, folder: Path) -> None:
        self.part = part
        self.is_ready = False
        self.status = ""
        self._path = folder / f"{part.name.replace(':', '-')}.notify"
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(self._path))
        env = {**os.environ, **part.env, "NOTIFY_SOCKET": str(self._path)}
        self._popen = subprocess.Popen(
            part.argv,
            env=env,
            stdin=subprocess.DEVNULL,
            pass_fds=part.pass_fds,
            start_new_session=True,  # the terminal's Ctrl-C is for the launcher, which stops its parts in order
            preexec_fn=_die_with_launcher,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit status, or ``None`` while it runs."""
        return self._popen.poll()

    def look(self) -> None:
        """Take in what the part has said of itself."""
        if self.part.is_ready is not None:
            self.is_ready = self.is_ready or self.part.is_ready()
        with suppress(BlockingIOError):
            while True:
                self._hear(self._socket.recv(4096).decode(errors="replace"))

    def _hear(self, message: str) -> None:
        facts = dict(line.partition("=")[::2] for line in message.splitlines())
        self.is_ready = self.is_ready or facts.get("READY") == "1"
        self.status = facts.get("STATUS", self.status)

    def ask_to_stop(self) -> None:
        """Let it drain."""
        with suppress(ProcessLookupError):
            self._popen.send_signal(self.part.stop_signal)

    def end(self) -> None:
        """End it and everything it started, now. Safe to call twice."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        with suppress(ChildProcessError):  # its orphans are ours, and must be gone before we say so
            while True:
                os.waitpid(-self.pid, 0)
        self._socket.close()
        self._path.unlink(missing_ok=True)


def adopt_orphans() -> None:
    """Become the parent of what our parts leave behind, so that it can be waited for."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _die_with_launcher() -> None:
    """Runs between fork and exec: a launcher that is killed takes its parts along, even one that is stopped."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
