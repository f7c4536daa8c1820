"""The API keys of a deployment: a file of hashes, which can be changed while the API runs.

```toml
[tenants.acme]            # optional: limits of its own
requests = 64             # live at once
bytes = "2GiB"            # of media, live at once
per_second = 50

[[keys]]
tenant = "acme"
sha256 = "…"              # of the key; `forebay key acme` makes both
operator = true           # optional: may read /metrics
```

Keys are long random texts, so a plain hash of one gives nothing away.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from api.tenants import Tenant
from forebay.errors import ConfigurationError
from forebay.settings import read_name, read_size
from handoff.moves import FREE, Quota

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Key(BaseModel):
    model_config = _STRICT

    tenant: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    operator: bool = False

    @field_validator("tenant")
    @classmethod
    def _is_name(cls, name: str) -> str:
        return read_name(name)


class _Limits(BaseModel):
    model_config = _STRICT

    requests: int | None = Field(default=None, ge=0)
    bytes: str | int | None = None
    per_second: float | None = Field(default=None, ge=0, strict=False)

    @field_validator("bytes")
    @classmethod
    def _is_size(cls, value: str | int | None) -> int | None:
        return None if value is None else read_size(str(value))

    def over(self, default: Quota) -> Quota:
        """These limits, and the deployment's where there is none of its own."""
        return Quota(
            default.live if self.requests is None else self.requests,
            default.size_bytes if self.bytes is None else int(self.bytes),
            default.per_second if self.per_second is None else self.per_second,
        )


class _File(BaseModel):
    model_config = _STRICT

    keys: list[_Key] = []
    tenants: dict[str, _Limits] = {}


def hash_of_key(key: str) -> str:
    """What the file keeps of a key."""
    return hashlib.sha256(key.encode()).hexdigest()


def read_keys(text: str, default: Quota = FREE) -> dict[str, Tenant]:
    """Who comes with which key, by its hash.

    Raises:
        ValueError: naming the line or the field that is wrong.
    """
    try:
        found = _File.model_validate(tomllib.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        place = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, first["loc"])))
        raise ValueError(f"{place}: {first['msg']}") from error
    hashes = [key.sha256 for key in found.keys]
    twice = next((number for number, one in enumerate(hashes) if one in hashes[:number]), None)
    if twice is not None:
        raise ValueError(f"keys[{twice}].sha256: another entry has the same key")
    strangers = sorted(set(found.tenants) - {key.tenant for key in found.keys})
    if strangers:
        raise ValueError(f"tenants.{strangers[0]} has limits and no key")
    none = _Limits()
    return {
        key.sha256: Tenant(key.tenant, found.tenants.get(key.tenant, none).over(default), key.operator)
        for key in found.keys
    }


@dataclass(slots=True)
class KeyRing:
    """The keys of a file, read again when it changes. A file that has become unreadable leaves the keys as they were.

    Raises:
        ConfigurationError: the file cannot be read when the process starts.
    """

    path: Path
    default: Quota = FREE
    _tenants: dict[str, Tenant] = field(init=False)
    _seen: tuple[int, int, int] = field(init=False)
    _looked_at: float = field(init=False)

    def __post_init__(self) -> None:
        try:
            self._read()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigurationError(f"FOREBAY_API_KEYS={str(self.path)!r}: {reason}") from error

    def tenant(self, key: str) -> Tenant | None:
        """Who comes with a key. Every key of the file is compared, so that the time tells nothing."""
        self._refresh()
        hashed = hash_of_key(key).encode()
        found = [own for known, own in self._tenants.items() if hmac.compare_digest(known.encode(), hashed)]
        return found[0] if found else None

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = now
        try:
            if self._stamp() != self._seen:
                self._read()
                log.info("API keys read again", extra={"keys": len(self._tenants)})
        except (OSError, ValueError, RecursionError) as error:
            log.error("API keys stay as they were", extra={"path": str(self.path), "reason": str(error)})

    def _read(self) -> None:
        self._looked_at = time.monotonic()
        self._seen = self._stamp()
        self._tenants = read_keys(self.path.read_text(), self.default)

    def _stamp(self) -> tuple[int, int, int]:
        stat = self.path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def lines_for(tenant: str, key: str, *, operator: bool) -> str:
    """What to add to the file for a new key."""
    lines = ["", "[[keys]]", f'tenant = "{tenant}"', f'sha256 = "{hash_of_key(key)}"']
    return "\n".join([*lines, "operator = true"] if operator else lines) + "\n"
