"""What stands between the slashes and the path of a URL: perhaps a user, a host, perhaps a port."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from api.fetch.names import read_host

# urlsplit has read past what stands beside the brackets of an address, and let brackets hold what is none.
_HOST_AND_PORT = re.compile(r"(?:\[(?P<ip>[^\[\]]*:[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]*))?")
_LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Authority:
    """``port`` is ``None`` where none is said; ``user`` is name and password as Basic authentication joins them."""

    host: str
    port: int | None
    user: bytes | None = None

    @property
    def authorization(self) -> str | None:
        """What a header says of the user."""
        return None if self.user is None else "Basic " + base64.b64encode(self.user).decode()

    @classmethod
    def read(cls, text: str) -> Authority:
        """By what a URL says.

        Raises:
            ValueError: why it is none, with nothing of it repeated.
        """
        said, at, rest = text.rpartition("@")
        found = _HOST_AND_PORT.fullmatch(rest)
        if not found:
            raise ValueError("a malformed host or port")
        host = read_host(found["ip"] if found["ip"] is not None else found["name"])
        return cls(host, _read_port(found["port"] or ""), _read_user(said) if at else None)


def _read_port(text: str) -> int | None:
    if not text:
        return None
    if len(text) > 5 or int(text) > _LAST_PORT:
        raise ValueError("a malformed host or port")
    if int(text) == 0:
        raise ValueError("port 0")
    return int(text)


def _read_user(said: str) -> bytes | None:
    name, _, password = said.partition(":")
    user = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return None if user == b":" else user
