"""A whole deployment as a user starts it: ``forebay up`` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from launch.proof import descendants

START_WITHIN_S = 120
STOP_WITHIN_S = 60


class Deployment:
    """A running ``forebay up``: its addresses, what it printed, and its processes."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: dict[str, str] | None = None,
        python: str = sys.executable,
        cwd: Path | None = None,
    ) -> None:
        command = [python, "-m", "forebay", "up", "--port", "0", "--pool-bytes", "192MiB", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "FOREBAY_LOG_LEVEL": "INFO", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def find(self, pattern: str) -> str | None:
        """The first group of the first line that matches."""
        for line in list(self.lines):
            match = re.search(pattern, line)
            if match:
                return match[1]
        return None

    def wait_for(self, pattern: str, within_s: float = START_WITHIN_S) -> str:
        """Wait for a line, as a person would who reads the terminal."""
        give_up_at = time.monotonic() + within_s
        while time.monotonic() < give_up_at:
            found = self.find(pattern)
            if found is not None:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"no line matches {pattern!r}:\n{self.output}")

    @property
    def url(self) -> str:
        return self.wait_for(r"^API +(http\S+)")

    @property
    def flower(self) -> str:
        return self.wait_for(r"^Flower +(http\S+)")

    @property
    def name(self) -> str:
        """The run's name, which its folders bear."""
        return self.wait_for(r"(forebay-up-[0-9a-f]{8})")

    @property
    def folders(self) -> list[Path]:
        return [Path("/dev/shm") / self.name, Path("/tmp") / self.name]

    def pids(self) -> set[int]:
        """The launcher and everything below it."""
        return {self.process.pid} | descendants(self.process.pid)

    def pids_of(self, part: str) -> list[int]:
        """Processes of a part, parents first."""
        found = []
        for pid in sorted(self.pids()):
            try:
                arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except FileNotFoundError:
                continue
            if part.encode() in arguments:
                found.append(pid)
        return found

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def wait(self, within_s: float = STOP_WITHIN_S) -> int:
        """The exit status, once it has ended."""
        try:
            return self.process.wait(within_s)
        finally:
            self._reader.join(5)

    def kill(self) -> None:
        """End it however it stands."""
        self.process.kill()
        self.process.wait()
        self._reader.join(5)


@contextmanager
def running(
    arguments: Sequence[str], env: dict[str, str] | None = None, python: str = sys.executable, cwd: Path | None = None
) -> Iterator[Deployment]:
    """A deployment that is ready, for the time of the block; it drains afterwards.

    Args:
        arguments: of ``forebay up``.
        env: on top of this process' environment.
        python: of which environment.
        cwd: where it is started; here, by default.
    """
    deployment = Deployment(arguments, env, python, cwd)
    try:
        deployment.wait_for(r"^(ready)")
        assert httpx.get(f"{deployment.url}/ready").status_code == 200
        yield deployment
        if deployment.process.poll() is None:
            deployment.interrupt()
            deployment.wait()
    finally:
        deployment.kill()
