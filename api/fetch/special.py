"""Which addresses are public, and which stand for others. Pure.

The registries of special-purpose addresses (RFC 6890) are IANA's. What they set aside is refused even where they call
it reachable, because it is for protocols, and nobody keeps media there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

IP = ipaddress.IPv4Address | ipaddress.IPv6Address

_SPECIAL_4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared, behind a carrier's NAT
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # in no registry: under this number Azure's machines reach the host below them
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; 192.0.0.192 is metadata at Oracle
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4, deprecated
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved; broadcast
    )
)
_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that is routed; everything else is for the inside
_SPECIAL_6 = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, AMT, ORCHID, …
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
WELL_KNOWN = ipaddress.IPv6Network("64:ff9b::/96")
"""The prefix of RFC 6052 for IPv4 behind a translator."""
LENGTHS = (32, 40, 48, 56, 64, 96)
"""Of prefixes for translators, in RFC 6052."""
_ISATAP = 0x5EFE
_ISATAP_FLAGS = 0x0300_0000


def is_public(ip: IP) -> bool:
    """Whether an address that stands for itself is one of the internet's."""
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _SPECIAL_4)
    return ip in _UNICAST and not any(ip in network for network in _SPECIAL_6)


def meanings(ip: IP, translated: Sequence[ipaddress.IPv6Network]) -> Sequence[IP]:
    """The addresses behind one, all of which count: what IPv6 wraps is where a packet ends.

    Args:
        ip: what would be dialled.
        translated: prefixes behind which a translator makes IPv4 of what is sent there.

    Raises:
        ValueError: nobody can tell.
    """
    if isinstance(ip, ipaddress.IPv4Address):
        return (ip,)
    if ip.ipv4_mapped is not None:
        return (ip.ipv4_mapped,)
    # The longest first: a wider prefix around it reads other bits.
    for prefix in sorted(translated, key=lambda one: -one.prefixlen):
        if ip in prefix:
            return (translated_to(ip, prefix.prefixlen),)
    if ip.sixtofour is not None:
        return (ip.sixtofour, *_isatap(ip))
    if ip.teredo is not None:
        return ip.teredo
    return (ip, *_isatap(ip))


def translated_to(ip: ipaddress.IPv6Address, length: int) -> ipaddress.IPv4Address:
    """The IPv4 address in one behind a prefix of this length, where RFC 6052 (2.2) puts it.

    Raises:
        ValueError: its ninth byte is not zero, as it must be.
    """
    packed = ip.packed
    if packed[8]:
        raise ValueError(f"{ip} is no address of a translator")
    start = length // 8
    return ipaddress.IPv4Address(packed[12:] if length == max(LENGTHS) else (packed[start:8] + packed[9:])[:4])


def _isatap(ip: ipaddress.IPv6Address) -> Sequence[IP]:
    """The IPv4 address that the lower half names as ISATAP has it (RFC 5214), under any prefix."""
    lower = int(ip) & 0xFFFF_FFFF_FFFF_FFFF
    if lower >> 32 & ~_ISATAP_FLAGS != _ISATAP:
        return ()
    return (ipaddress.IPv4Address(lower & 0xFFFF_FFFF),)
