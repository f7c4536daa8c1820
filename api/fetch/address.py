"""A URL, read once and strictly: what two readers could take for two hosts is refused."""

from __future__ import annotations

import base64
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from forebay.errors import Rejected

PORTS = {"http": 80, "https": 443}
_MOST_CHARACTERS = 8192
_SHOWN = 96
_HOST = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)*\.?")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to go: ``target`` is path and query, ``authorization`` what the URL says of a user, if anything."""

    scheme: str
    host: str
    port: int
    target: str
    authorization: str | None = None

    @property
    def shown(self) -> str:
        """The address as anybody may read it: neither user nor query, which are often keys."""
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        path = self.target.partition("?")[0]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return _shortened(f"{self.scheme}://{host}{port}{path}")

    @property
    def url(self) -> str:
        """The whole of it, without the user."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.target}"

    def follow(self, location: str, param: str) -> Address:
        """Where a redirect leads. What a URL says of a user stays with its host.

        Raises:
            Rejected: to something that is no http address.
        """
        there = read_address(urljoin(self.url, location), param)
        same = (there.scheme, there.host, there.port) == (self.scheme, self.host, self.port)
        kept = self.authorization if same else None
        return Address(there.scheme, there.host, there.port, there.target, there.authorization or kept)


def read_address(url: str, param: str) -> Address:
    """The address that a URL names.

    Raises:
        Rejected: ``invalid_url``: longer than any, with characters that have no place in one, with an odd host or port.
    """
    if len(url) > _MOST_CHARACTERS:
        raise _invalid(param, f"a URL of {len(url)} characters; the limit is {_MOST_CHARACTERS}")
    if _FORBIDDEN.search(url):
        raise _invalid(param, "a URL with spaces, backslashes or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid(param, "a URL with a malformed host or port") from error
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        message = f"{param}: {scheme[:16]!r} is no scheme that is fetched; http and https are"
        raise Rejected("unsupported_source", message, param=param)
    if port == 0:
        raise _invalid(param, "a URL with port 0")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(scheme, _host(parts, param), port or PORTS[scheme], _ascii(target), _authorization(parts))


def _host(parts: SplitResult, param: str) -> str:
    host = parts.hostname or ""
    if ":" in host:
        if "%" in host:
            raise _invalid(param, "a URL with an address of one link")
        try:
            return str(ipaddress.IPv6Address(host))
        except ValueError as error:
            raise _invalid(param, "a URL with a malformed IPv6 address") from error
    try:
        name = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as error:
        raise _invalid(param, "a URL whose host is no name") from error
    name = name.lower()
    if _NUMERIC.fullmatch(name):
        try:  # 127.1, 0x7f000001 and 2130706433 are loopback to some readers, and names to others
            return str(ipaddress.IPv4Address(name))
        except ValueError as error:
            raise _invalid(param, "a URL whose host is an oddly spelled number") from error
    if not _HOST.fullmatch(name) or len(name) > 253:
        raise _invalid(param, "a URL whose host is no name")
    return name.rstrip(".")


def _authorization(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _ascii(target: str) -> str:
    """Characters beyond ASCII as everybody sends them."""
    return "".join(c if c.isascii() else "".join(f"%{byte:02X}" for byte in c.encode()) for c in target)


def shown(url: str) -> str:
    """Any URL as a message may have it: no user, no query."""
    scheme, colon, rest = url.partition("://")
    if not colon:
        return _shortened(url.partition("?")[0])
    authority, slash, path = rest.partition("/")
    authority = authority.partition("?")[0].rpartition("@")[2]
    return _shortened(f"{scheme}://{authority}{slash}{path.partition('?')[0].partition('#')[0]}")


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _invalid(param: str, reason: str) -> Rejected:
    return Rejected("invalid_url", f"{param}: {reason}", param=param)
