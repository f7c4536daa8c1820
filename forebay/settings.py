"""Configuration, read once: every process builds its settings in its ``main`` and passes down what is needed.

A setting is a dataclass field with the name of its environment variable, how its text is read, and its default. All
bad values are reported together, each with its variable, its value and what was expected.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from forebay.errors import ConfigurationError
from forebay.model import ModelSource
from forebay.sentinels import SCHEME, Sentinels

S = TypeVar("S")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B?|B)?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LAST_PORT = 65_535
_LEAST_POOL_BYTES = 16 << 20
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def read_size(text: str) -> int:
    """Bytes from ``512MiB``, ``1G`` or ``4096``; every prefix is a power of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError("a size such as 512MiB was expected")
    unit = (match[2] or "B").upper()
    return int(float(match[1]) * 1024 ** "BKMGT".index(unit[0]))


def read_name(text: str) -> str:
    """A name that may stand in keys and paths."""
    if not _NAME.fullmatch(text):
        raise ValueError("letters, digits, '_', '.' and '-' were expected, at most 63")
    return text


def read_flag(text: str) -> bool:
    """Yes or no, in the usual spellings."""
    if text.lower() in _TRUE + _FALSE:
        return text.lower() in _TRUE
    raise ValueError("1 or 0 was expected")


def read_port(text: str) -> int:
    """A port to listen on; 0 lets the system pick one."""
    if not 0 <= int(text) <= _LAST_PORT:
        raise ValueError(f"a number from 0 to {_LAST_PORT} was expected")
    return int(text)


def read_file_name(text: str) -> Path | None:
    """A file; empty for none, as Compose hands over what is not set."""
    return Path(text) if text else None


def read_models(text: str) -> tuple[ModelSource, ...]:
    """``NAME[=DIR]``, several of them separated by commas."""
    models = tuple(ModelSource.parse(part.strip()) for part in text.split(",") if part.strip())
    names = [model.name for model in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"every model may be named once, and {', '.join(twice)} is named again")
    return models


def read_redis_url(text: str) -> str:
    """A URL that redis-py and kombu both read, or one of Sentinels; empty for none."""
    if text.startswith(SCHEME):
        Sentinels.read(text)
    elif text and not text.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("redis://HOST:PORT/DB, rediss://…, sentinel://… or unix://PATH was expected")
    return text


def read_seconds(text: str) -> float:
    """A time that passes."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError("seconds above 0 were expected")
    return seconds


def read_list(text: str) -> tuple[str, ...]:
    """Names, separated by commas."""
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def read_pool_size(text: str) -> int:
    """Bytes of a pool that is worth its name: one small picture takes megabytes."""
    size = read_size(text)
    if size < _LEAST_POOL_BYTES:
        raise ValueError(f"at least {_LEAST_POOL_BYTES >> 20}MiB were expected")
    return size


def read_cores(text: str) -> tuple[int, ...]:
    """Core numbers such as ``0-3,8``; empty for none."""
    cores: list[int] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        first, _, last = part.partition("-")
        own = range(int(first), int(last or first) + 1)
        if not own:
            raise ValueError(f"{part} names no core; the lower number comes first")
        cores.extend(own)
    if len(set(cores)) != len(cores):
        raise ValueError("every core may be named once")
    return tuple(cores)


def read_level(text: str) -> str:
    """A level of the log."""
    if text.upper() not in _LEVELS:
        raise ValueError(f"one of {', '.join(_LEVELS)} was expected")
    return text.upper()


def _read_secret(text: str) -> bytes:
    if len(text) < 16:
        raise ValueError("at least 16 characters were expected")
    return text.encode()


def _at_least(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if int(text) < least:
            raise ValueError(f"a whole number of at least {least} was expected")
        return int(text)

    return read


def setting(
    variable: str, read: Callable[[str], Any], default: Any = MISSING, *, secret: bool = False, option: str = ""
) -> Any:
    """A field that comes from the environment; without a default it must be set, there or by its option."""
    metadata = {"variable": variable, "read": read, "secret": secret, "option": option}
    if default is MISSING:
        return field(metadata=metadata)
    return field(metadata=metadata, default_factory=default if callable(default) else lambda: default)


def _default_node() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:63] or "node"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSettings:
    """What every process of a deployment must agree on."""

    secret: bytes = setting("FOREBAY_SECRET", _read_secret, secret=True)
    redis_url: str = setting("REDIS_URL", read_redis_url, "redis://127.0.0.1:6379/0")
    deployment: str = setting("FOREBAY_DEPLOYMENT", read_name, "forebay")
    media: str = setting("FOREBAY_MEDIA", str, "redis")
    """``redis``, or ``spool:DIR`` where API and workers share a file system."""
    log_level: str = setting("FOREBAY_LOG_LEVEL", read_level, "INFO")

    @property
    def prefix(self) -> str:
        """What every key of the deployment begins with."""
        return f"{self.deployment}:"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings(SharedSettings):
    """What the processes of one node share: its name and its shared memory."""

    node: str = setting("FOREBAY_NODE", read_name, _default_node)
    run_dir: Path | None = setting("FOREBAY_RUN_DIR", Path, None)
    # Fits three of the largest Qwen2-VL images (308 MB each); containers often have less and must say so.
    pool_bytes: int = setting("FOREBAY_POOL_BYTES", read_pool_size, 1 << 30)

    @property
    def installation(self) -> str:
        """Whose pool it is: installations with another secret, and so another Redis, never open it."""
        return installation_of(self.secret)

    @property
    def folder(self) -> Path:
        """The node's folder on tmpfs: the pool and the owners' lock files."""
        return self.run_dir or Path("/dev/shm") / f"forebay-{self.deployment}-{self.node}"  # noqa: S108

    @property
    def pool_path(self) -> Path:
        return self.folder / "pool"


def installation_of(secret: bytes) -> str:
    """A name for those who share a secret, which does not give it away."""
    return hmac.digest(secret, b"forebay pool", hashlib.sha256).hex()[:16]


def load(cls: type[S], overrides: Mapping[str, str | None] | None = None) -> S:
    """Build settings from the environment and from what the command line said instead.

    Args:
        cls: the settings of the process.
        overrides: text by variable; ``None`` leaves the environment's value.

    Raises:
        ConfigurationError: naming every bad value at once.
    """
    given = dict(os.environ) | {name: text for name, text in (overrides or {}).items() if text is not None}
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for one in fields(cast("Any", cls)):
        text = given.get(one.metadata["variable"])
        if text is not None:
            _read_into(values, one, text, wrong)
        elif one.default is MISSING and one.default_factory is MISSING:
            option = one.metadata["option"]
            wrong.append(f"{one.metadata['variable']} is not set" + (f" (option {option})" if option else ""))
    if wrong:
        raise ConfigurationError("; ".join(wrong))
    return cls(**values)


def _read_into(values: dict[str, Any], one: Any, text: str, wrong: list[str]) -> None:
    variable = one.metadata["variable"]
    try:
        values[one.name] = one.metadata["read"](text)
    except ConfigurationError as error:
        wrong.append(str(error))
    except (ValueError, IndexError) as error:
        shown = "(not shown)" if one.metadata["secret"] else repr(text)
        wrong.append(f"{variable}={shown}: {error}")


whole_number = _at_least
