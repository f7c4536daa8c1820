"""Host names in one form: what two readers could take for two hosts is no name."""

from __future__ import annotations

import ipaddress
import re

_MOST_CHARACTERS = 253
_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9_-]*[a-z0-9])?)*")
_NUMERIC = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*\.?")
# Sharp s, final sigma and the two joiners: the two standards of IDNA lead to two hosts.
_DISPUTED = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")


def read_host(host: str) -> str:
    """A host as a look-up wants it: small letters, ASCII, no dot at the end; an address in its usual spelling.

    Raises:
        ValueError: why it is none.
    """
    if ":" in host:
        return _read_ipv6(host)
    name = to_ascii(host)
    if _NUMERIC.fullmatch(name):
        try:  # 127.1, 0x7f000001 and 2130706433 are loopback to some readers, and names to others
            return str(ipaddress.IPv4Address(name))
        except ValueError as error:
            raise ValueError("a host that is an oddly spelled number") from error
    name = name.removesuffix(".")
    if not _NAME.fullmatch(name):
        raise ValueError("a host that is no name")
    return name


def to_ascii(name: str) -> str:
    """A name, or a part of one, in small letters and ASCII.

    Raises:
        ValueError: it has no such form, or two, or is too long.
    """
    if len(name) > _MOST_CHARACTERS + 1:
        raise ValueError("a host that is no name")
    if _DISPUTED.search(name):
        raise ValueError("a host with a letter that is read in two ways; its form with xn-- is read in one")
    try:
        found = (name if name.isascii() else name.encode("idna").decode()).lower()
    except UnicodeError as error:
        raise ValueError("a host that is no name") from error
    if len(found.removesuffix(".")) > _MOST_CHARACTERS:
        raise ValueError("a host that is no name")
    return found


def _read_ipv6(host: str) -> str:
    if "%" in host:
        raise ValueError("an address of one link")
    try:
        return str(ipaddress.IPv6Address(host))
    except ValueError as error:
        raise ValueError("a malformed IPv6 address") from error


def is_ip(host: str) -> bool:
    """Whether a host is an address already."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def unbracketed(host: str) -> str:
    """The same without brackets, if it has both."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host
