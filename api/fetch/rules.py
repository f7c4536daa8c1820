"""Where one may fetch from: which hosts, which ports, which addresses. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from api.fetch.names import is_ip
from api.fetch.patterns import matches
from api.fetch.special import IP, LENGTHS, WELL_KNOWN, is_public, meanings

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The rules of one deployment.

    Attributes:
        is_on: whether anything is fetched.
        hosts: patterns such as ``*.example.org``; when there are some, no other host is asked.
        denied: patterns of hosts that are never asked.
        networks: addresses that may be dialled although they are not public.
        ports: that may be dialled.
        translated: IPv6 prefixes behind which IPv4 lies, besides the one that every network has.
    """

    is_on: bool = True
    hosts: Sequence[str] = ()
    denied: Sequence[str] = ()
    networks: Sequence[Network] = ()
    ports: Sequence[int] = (80, 443)
    translated: Sequence[ipaddress.IPv6Network] = ()

    def allows_host(self, host: str) -> bool:
        """Whether a host may be asked, by its name."""
        if any(matches(one, pattern) for one in self._spellings(host) for pattern in self.denied):
            return False
        return not self.hosts or any(matches(host, pattern) for pattern in self.hosts)

    def _spellings(self, host: str) -> set[str]:
        """What a denied host could also be called: IPv6 around it makes it no other."""
        if not is_ip(host):
            return {host}
        try:
            return {host, *map(str, self._meanings(ipaddress.ip_address(host)))}
        except ValueError:
            return {host}

    def allows(self, host: str, port: int) -> bool:
        """Whether a host may be asked, as far as that is known without looking it up."""
        return port in self.ports and self.allows_host(host) and (not is_ip(host) or self.allows_ip(host))

    def allows_ip(self, ip: str) -> bool:
        """Whether an address may be dialled: all that it stands for is public, or in an allowed network."""
        try:
            found = self._meanings(ipaddress.ip_address(ip))
        except ValueError:  # what cannot be judged is not dialled
            return False
        return all(is_public(one) or any(one in network for network in self.networks) for one in found)

    def _meanings(self, ip: IP) -> Sequence[IP]:
        return meanings(ip, (WELL_KNOWN, *self.translated))


def read_networks(text: str) -> tuple[Network, ...]:
    """Networks such as ``10.0.0.0/8``, separated by commas."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def read_translated(text: str) -> tuple[ipaddress.IPv6Network, ...]:
    """Prefixes of translators such as ``fd00:64::/96``, separated by commas."""
    found = tuple(ipaddress.IPv6Network(part.strip()) for part in text.split(",") if part.strip())
    for one in found:
        if one.prefixlen not in LENGTHS:
            raise ValueError(f"{one} has none of the lengths of RFC 6052, {', '.join(map(str, LENGTHS))}")
        if one.prefixlen == max(LENGTHS) and one.network_address.packed[8]:
            raise ValueError(f"{one} has a ninth byte that is not zero, as RFC 6052 wants it")
    return found


def read_ports(text: str) -> tuple[int, ...]:
    """Ports, separated by commas."""
    ports = tuple(int(part) for part in text.split(",") if part.strip())
    if not ports or not all(0 < port < 65_536 for port in ports):
        raise ValueError("port numbers were expected, separated by commas")
    return ports
