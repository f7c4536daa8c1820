"""Which addresses may be dialled: what is public, however it is wrapped, and what the deployment names."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from api.fetch.patterns import read_hosts
from api.fetch.rules import FetchRules, read_networks, read_ports, read_translated

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
INSIDE = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
    "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "100::1", "2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::",
    "2001:0:7f00:1::1", "2001:0:808:808:0:0:80ff:fffe", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "5f00::1", "4000::1",
    "168.63.129.16", "::ffff:168.63.129.16", "::8.8.8.8", "::ffff:0:8.8.8.8",
]  # fmt: skip

# https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, with multicast;
# without what is judged by the IPv4 address within (::ffff:0:0/96, 64:ff9b::/96, 2001::/32, 2002::/16).
REGISTERED = [
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32",
    "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    "255.255.255.255/32",
    "::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001:1::1/128", "2001:1::2/128",
    "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28",
    "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "ff00::/8",
]  # fmt: skip


@pytest.mark.parametrize("ip", PUBLIC)
def test_a_public_address_may_be_dialled(ip):
    """In either version, and wrapped."""
    assert FetchRules().allows_ip(ip)


@pytest.mark.parametrize("ip", INSIDE)
def test_every_other_address_is_blocked(ip):
    """Loopback, private, link-local, shared, reserved, documentation, multicast; and whatever wraps one of them."""
    assert not FetchRules().allows_ip(ip)


@pytest.mark.parametrize("network", REGISTERED)
def test_what_is_set_aside_is_blocked_from_its_first_address_to_its_last(network):
    """And, of IPv4, in every wrapping."""
    first, last = (ip_network(network)[at] for at in (0, -1))
    for ip in (first, last):
        assert not FetchRules().allows_ip(str(ip))
        if ip.version == 4:
            assert not any(FetchRules().allows_ip(one) for one in wrapped(ip))


@pytest.mark.parametrize(
    "ip",
    ["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
     "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0",
     "191.255.255.255", "192.0.1.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
     "198.17.255.255", "198.20.0.0", "223.255.255.255", "2000::", "2001:200::", "2001:db7:ffff::1", "2001:db9::",
     "2620:4f:8001::", "3fff:1000::", "3ffe:ffff::1"],
)  # fmt: skip
def test_what_stands_beside_is_not(ip):
    """The borders are where they are."""
    assert FetchRules().allows_ip(ip)


def wrapped(ip: IPv4Address) -> list[str]:
    """An IPv4 address in each way in which IPv6 leads to one."""
    number, other = int(ip), int(ip) ^ 0xFFFF_FFFF
    teredo = 0x2001 << 112
    found = [
        0xFFFF << 32 | number,  # mapped
        0x64_FF9B << 96 | number,  # behind a translator
        0x2002 << 112 | number << 80 | 1,  # 6to4
        teredo | number << 64 | 0xF7F7_F7F7,  # Teredo, by its server
        teredo | 0x0808_0808 << 64 | other,  # and by its client
        0x2606_2800_0220_0001 << 64 | 0x5EFE << 32 | number,  # ISATAP, and with its flags
        0x2606_2800_0220_0001 << 64 | 0x0200_5EFE << 32 | number,
    ]
    return [str(IPv6Address(one)) for one in found]


def test_what_leads_to_a_public_address_is_public():
    """So that the test above does not hold for anything at all."""
    assert all(FetchRules().allows_ip(one) for one in wrapped(IPv4Address("8.8.8.8")))


# RFC 6052, 2.4: 192.0.2.33 behind a prefix of each length.
TRANSLATED = {
    "2001:db8::/32": "2001:db8:c000:221::",
    "2001:db8:100::/40": "2001:db8:1c0:2:21::",
    "2001:db8:122::/48": "2001:db8:122:c000:2:2100::",
    "2001:db8:122:300::/56": "2001:db8:122:3c0:0:221::",
    "2001:db8:122:344::/64": "2001:db8:122:344:c0:2:2100::",
    "2001:db8:122:344::/96": "2001:db8:122:344::192.0.2.33",
}


@pytest.mark.parametrize("prefix", TRANSLATED)
def test_an_address_behind_a_translator_is_the_one_within(prefix):
    """Wherever a prefix of its length leaves it; networks that are allowed are looked for there, too."""
    within, translated = TRANSLATED[prefix], read_translated(prefix)

    assert FetchRules(translated=translated, networks=read_networks("192.0.2.33/32")).allows_ip(within)
    assert not FetchRules(translated=translated, networks=read_networks("192.0.2.32/32")).allows_ip(within)
    assert not FetchRules(translated=translated, networks=read_networks(prefix)).allows_ip(within)


@pytest.mark.parametrize("ip", ["8.8.8.8", "169.254.169.254", "127.0.0.1", "10.0.0.1", "93.184.216.34"])
@pytest.mark.parametrize("prefix", ["fd00:64::/32", "fd00:6400::/40", "fd00:64:ff::/48", "64:ff9b:1::/48",
                                    "fd00:64:ff:ff00::/56", "64:ff9b:1:ff::/64", "fd00:64::/64", "fd00:64::/96",
                                    "64:ff9b:1:7::/96"])  # fmt: skip
def test_behind_every_length_of_prefix_the_public_is_public_and_the_inside_is_not(ip, prefix):
    """Without the prefix being named, none of them is dialled."""
    within = embedded(ip, prefix)

    assert FetchRules(translated=read_translated(prefix)).allows_ip(within) == FetchRules().allows_ip(ip)
    assert not FetchRules().allows_ip(within)


def embedded(ip: str, prefix: str) -> str:
    """By RFC 6052, 2.2: its bytes go on behind the prefix, past the ninth byte, which stays zero."""
    packed = bytearray(ip_network(prefix).network_address.packed)
    places = [at for at in range(ip_network(prefix).prefixlen // 8, 16) if at != 8 or "/96" in prefix]
    for at, byte in zip(places, ip_address(ip).packed, strict=False):
        packed[at] = byte
    return str(IPv6Address(bytes(packed)))


def test_what_cannot_be_judged_is_blocked():
    """The ninth byte of a translator's address is zero; with another one, nobody knows where it leads."""
    rules = FetchRules(translated=read_translated("fd00:64:ff::/48"))

    assert rules.allows_ip("fd00:64:ff:808:8:800::")
    assert not rules.allows_ip("fd00:64:ff:808:108:800::")


def test_of_two_prefixes_the_longer_one_tells():
    """The wider one around it reads other bytes."""
    rules = FetchRules(translated=read_translated("fd00:64::/32, fd00:64:808:808::/96"))

    assert not rules.allows_ip("fd00:64:808:808::127.0.0.1")


@pytest.mark.parametrize(
    "text", ["10.0.0.0/8", "fd00:64::/95", "fd00:64::1/96", "fd00:64::", "fd00:64:0:0:100::/96", "x"]
)
def test_prefixes_that_no_translator_has(text):
    """RFC 6052 knows six lengths."""
    with pytest.raises(ValueError, match=r"RFC 6052|bits set|[Ee]xpected|not permitted|At least"):
        read_translated(text)


@pytest.mark.parametrize(("ip", "allowed"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("10.2.0.1", False)])
def test_a_network_that_the_deployment_names_may_be_dialled(ip, allowed):
    """And no other for it."""
    assert FetchRules(networks=read_networks("10.1.0.0/16, fd00::/8")).allows_ip(ip) == allowed


@pytest.mark.parametrize(
    ("hosts", "denied", "host", "allowed"),
    [
        ("", "", "any.example", True),
        ("example.org", "", "example.org", True),
        ("example.org", "", "www.example.org", False),
        ("*.example.org", "", "www.example.org", True),
        ("*.example.org", "", "example.org", True),
        ("*.example.org", "", "badexample.org", False),
        ("", "evil.example", "evil.example", False),
        ("*.example.org", "www.example.org", "www.example.org", False),
        ("", "Evil.Example", "evil.example", False),
        ("", "evil.example.", "evil.example", False),
        ("", "*.evil.example.", "www.evil.example", False),
        ("", ".evil.example", "www.evil.example", False),
        ("", ".evil.example", "evil.example", False),
        ("", "bücher.example", "xn--bcher-kva.example", False),
        ("", "BÜCHER\u3002example\uff0e", "xn--bcher-kva.example", False),
        ("", "*.bücher.example", "a.xn--bcher-kva.example", False),
        ("", "xn--bcher-kva.example", "xn--bcher-kva.example", False),
        ("", "cdn-*.example.org", "cdn-7.example.org", False),
        ("", "cdn-*.example.org", "cdn.example.org", True),
        ("*", "", "any.example", True),
        ("8.8.8.8", "", "8.8.8.8", True),
        ("8.8.8.8", "", "8.8.4.4", False),
        ("", "8.8.8.8", "8.8.8.8", False),
        ("", "8.8.8.8", "::ffff:808:808", False),
        ("", "8.8.8.8", "64:ff9b::808:808", False),
        ("", "8.8.*", "8.8.4.4", False),
        ("", "[2606:2800:220:1:0::1]", "2606:2800:220:1::1", False),
        ("", "2606:2800:220:1:0::1", "2606:2800:220:1::1", False),
    ],
)
def test_hosts_are_allowed_and_denied_by_pattern(hosts, denied, host, allowed):
    """A denied one stays denied, whatever else is said."""
    assert FetchRules(hosts=read_hosts(hosts), denied=read_hosts(denied)).allows_host(host) == allowed


@pytest.mark.parametrize("text", ["", "0", "70000", "http", "-1"])
def test_ports_that_are_none(text):
    """A deployment that names none would fetch nothing."""
    with pytest.raises(ValueError, match=r"port|invalid literal"):
        read_ports(text)


def test_a_network_with_host_bits_is_refused():
    """It is a slip: what was meant nobody knows."""
    with pytest.raises(ValueError, match="host bits set"):
        read_networks("10.0.0.1/8")


@pytest.mark.parametrize(
    "pattern",
    ["example.org:80", "https://example.org", "example.org/a", "10.0.0.0/8", "exa mple.org", "a..example", "*..example",
     "bü*.example", "127.1", "0x7f000001", "[::1", "::1]:80", "2606:2800:*", "fe80::1%eth0", "straße.example",
     "a@b.example", "[a-z].example", "-a.example", "\ud800.example", "a" * 300],
)  # fmt: skip
def test_a_pattern_that_no_host_could_match_is_refused(pattern):
    """Among those to be denied it would let through what it is meant to stop."""
    with pytest.raises(ValueError, match=re.escape(f"{pattern!r} is no pattern of hosts")):
        read_hosts(f"example.org, {pattern}")
