"""Where one may fetch from: which hosts, which ports, which addresses. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that is routed; everything else is for the inside
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_INSIDE = (ipaddress.IPv6Network("3fff::/20"), ipaddress.IPv6Network("2001:db8::/32"))  # documentation
_COMPATIBLE = ipaddress.IPv6Network("::/96")


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The rules of one deployment.

    Attributes:
        is_on: whether anything is fetched.
        hosts: patterns such as ``*.example.org``; when there are some, no other host is asked.
        denied: patterns of hosts that are never asked.
        networks: addresses that may be dialled although they are not public.
        ports: that may be dialled.
    """

    is_on: bool = True
    hosts: Sequence[str] = ()
    denied: Sequence[str] = ()
    networks: Sequence[Network] = ()
    ports: Sequence[int] = (80, 443)

    def allows_host(self, host: str) -> bool:
        """Whether a host may be asked, by its name."""
        if any(_matches(host, pattern) for pattern in self.denied):
            return False
        return not self.hosts or any(_matches(host, pattern) for pattern in self.hosts)

    def allows(self, host: str, port: int) -> bool:
        """Whether a host may be asked, as far as that is known without looking it up."""
        return port in self.ports and self.allows_host(host) and (not is_ip(host) or self.allows_ip(host))

    def allows_ip(self, ip: str) -> bool:
        """Whether an address may be dialled: every address that it stands for is public, or in an allowed network."""
        address = ipaddress.ip_address(ip)
        if any(address in network for network in self.networks if network.version == address.version):
            return True
        return all(self._is_public(one) for one in _meanings(address))

    def _is_public(self, ip: IP) -> bool:
        if any(ip in network for network in self.networks if network.version == ip.version):
            return True
        if ip.is_multicast or ip.is_unspecified or ip.is_reserved:
            return False
        if isinstance(ip, ipaddress.IPv6Address):
            return ip in _UNICAST and ip.is_global and not any(ip in network for network in _INSIDE)
        return ip.is_global


def is_ip(host: str) -> bool:
    """Whether a host is an address already."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _matches(host: str, pattern: str) -> bool:
    return fnmatchcase(host, pattern) or pattern == f"*.{host}"


def _meanings(ip: IP) -> Iterator[IP]:
    """The addresses behind one: what is wrapped in IPv6 counts as what it wraps."""
    if isinstance(ip, ipaddress.IPv4Address):
        yield ip
        return
    if ip.ipv4_mapped is not None:
        yield ip.ipv4_mapped
    elif ip.sixtofour is not None:
        yield ip.sixtofour
    elif ip.teredo is not None:
        yield from ip.teredo
    elif any(ip in network for network in _NAT64) or ip in _COMPATIBLE:
        yield ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    else:
        yield ip


def read_hosts(text: str) -> tuple[str, ...]:
    """Host patterns, separated by commas."""
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks such as ``10.0.0.0/8``, separated by commas."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def read_ports(text: str) -> tuple[int, ...]:
    """Ports, separated by commas."""
    ports = tuple(int(part) for part in text.split(",") if part.strip())
    if not ports or not all(0 < port < 65_536 for port in ports):
        raise ValueError("port numbers were expected, separated by commas")
    return ports
