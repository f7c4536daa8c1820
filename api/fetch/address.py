"""A URL, read once and strictly: what two readers could take for two hosts is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, quote_from_bytes, urljoin, urlsplit

from api.fetch.authority import Authority
from api.fetch.names import bracketed
from forebay.errors import Rejected

PORTS = {"http": 80, "https": 443}
MOST_CHARACTERS = 8192
_SHOWN = 96
# Half of a surrogate pair is no character: JSON can spell one, and nothing can send it.
FORBIDDEN = re.compile("[\x00-\x20\x7f-\x9f\\\\\ud800-\udfff]")
"""Characters that stand in no URL."""
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]+")


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
        return _shortened(f"{self.scheme}://{bracketed(self.host)}{port}{path}")

    @property
    def url(self) -> str:
        """The whole of it, without the user."""
        return f"{self.scheme}://{bracketed(self.host)}:{self.port}{self.target}"

    def follow(self, location: bytes, param: str) -> Address:
        """Where a redirect leads, by its header. What a URL says of a user stays with its host.

        Raises:
            Rejected: to something that is no http address.
        """
        try:
            there = urljoin(self.url, _text_of(location))
        except ValueError as error:
            raise _invalid(param, "a redirect to a malformed URL") from error
        found = read_address(there, param)
        same = (found.scheme, found.host, found.port) == (self.scheme, self.host, self.port)
        kept = self.authorization if same else None
        return Address(found.scheme, found.host, found.port, found.target, found.authorization or kept)


def read_address(url: str, param: str) -> Address:
    """The address that a URL names.

    Raises:
        Rejected: ``invalid_url``: longer than any, with characters that have no place in one, with an odd host or port.
    """
    if len(url) > MOST_CHARACTERS:
        raise _invalid(param, f"a URL of {len(url)} characters; the limit is {MOST_CHARACTERS}")
    if FORBIDDEN.search(url):
        raise _invalid(param, "a URL with spaces, backslashes, control characters or halves of characters")
    parts = _split(url, param)
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        message = f"{param}: {scheme[:16]!r} is no scheme that is fetched; http and https are"
        raise Rejected("unsupported_source", message, param=param)
    try:
        authority = Authority.read(parts.netloc)
    except ValueError as error:
        raise _invalid(param, f"a URL with {error}") from error
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = authority.port or PORTS[scheme]
    return Address(scheme, authority.host, port, _escaped(target.encode()), authority.authorization)


def _split(url: str, param: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # whose words repeat the user
        raise _invalid(param, "a URL with a malformed host or port") from None


def _text_of(location: bytes) -> str:
    """A header as a URL; what is no UTF-8 is sent on as it came."""
    try:
        return location.decode()
    except UnicodeDecodeError:
        return _escaped(location)


def _escaped(target: bytes) -> str:
    """Characters beyond ASCII as everybody sends them."""
    return _BEYOND_ASCII.sub(lambda found: quote_from_bytes(found[0]).encode(), target).decode()


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _invalid(param: str, reason: str) -> Rejected:
    return Rejected("invalid_url", f"{param}: {reason}", param=param)
