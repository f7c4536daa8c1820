"""The proxies of a deployment, read once: through which one an address is asked, and which are asked without."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from api.fetch.address import FORBIDDEN, PORTS, Address
from api.fetch.authority import Authority
from api.fetch.names import is_ip, unbracketed
from api.fetch.patterns import matches, read_pattern
from api.fetch.rules import Network

_EXPECTED = "a proxy such as http://host:3128 was expected, and this is one with"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WITH_PORT = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where one is, and the ``Proxy-Authorization`` that it wants, which nobody else is shown."""

    scheme: str
    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Direct:
    """Who is asked without a proxy: a pattern of hosts or a network, at every port or one."""

    of: str | Network
    port: int | None = None

    def has(self, address: Address) -> bool:
        """Whether an address is one of those; names are not looked up for it."""
        if self.port not in (None, address.port):
            return False
        if isinstance(self.of, str):
            return matches(address.host, self.of)
        return is_ip(address.host) and ipaddress.ip_address(address.host) in self.of


@dataclass(frozen=True, slots=True)
class Proxies:
    """Those of a deployment by scheme, and the hosts that are asked without."""

    http: Proxy | None = None
    https: Proxy | None = None
    without: Sequence[Direct] = ()

    def of(self, address: Address) -> Proxy | None:
        """The proxy for an address."""
        proxy = self.https if address.scheme == "https" else self.http
        return None if any(one.has(address) for one in self.without) else proxy


def read_proxy(text: str) -> Proxy | None:
    """``[http[s]://][user:password@]host[:port]``; empty for none, as Compose hands over what is not set.

    Raises:
        ValueError: it is none. Nothing of the text is repeated, for a password may be in it, wherever it was cut.
    """
    text = text.strip()
    if not text:
        return None
    if FORBIDDEN.search(text):
        raise ValueError(f"{_EXPECTED} spaces, backslashes or control characters")
    try:
        parts = urlsplit(text if _SCHEME.match(text) else f"http://{text}")
    except ValueError:  # whose words repeat what is between the slashes, and would stand in a traceback
        raise ValueError(f"{_EXPECTED} a malformed host or port") from None
    if parts.scheme not in PORTS:
        raise ValueError(f"{_EXPECTED} another scheme than http and https")
    try:
        authority = Authority.read(parts.netloc)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED} {error}") from error
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"{_EXPECTED} something behind its port; '/', '?' and '#' in a password are written as %2F, …")
    return Proxy(parts.scheme, authority.host, authority.port or PORTS[parts.scheme], authority.authorization)


def read_no_proxy(text: str) -> tuple[Direct, ...]:
    """Hosts (each with all below it), addresses and networks, perhaps with a port; ``*`` for all.

    Raises:
        ValueError: one is none of these.
    """
    return tuple(_read_direct(part) for part in re.split(r"[,\s]+", text) if part)


def _read_direct(text: str) -> Direct:
    network = _network(text)
    if network is not None:
        return Direct(network)
    found = _WITH_PORT.fullmatch(text)
    host, port = (found["host"], int(found["port"])) if found else (text, None)
    network = _network(host)
    return Direct(_all_below(read_pattern(host)) if network is None else network, port)


def _network(text: str) -> Network | None:
    try:
        return ipaddress.ip_network(unbracketed(text), strict=False)
    except ValueError:
        return None


def _all_below(pattern: str) -> str:
    return pattern if "*" in pattern else f"*.{pattern}"
