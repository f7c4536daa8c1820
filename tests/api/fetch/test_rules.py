"""Which addresses may be dialled: what is public, however it is wrapped, and what the deployment names."""

import pytest

from api.fetch.rules import FetchRules, read_hosts, read_networks, read_ports

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
INSIDE = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
    "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "100::1", "2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::",
    "2001:0:7f00:1::1", "2001:0:808:808:0:0:80ff:fffe", "3fff::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "5f00::1", "4000::1",
]  # fmt: skip


@pytest.mark.parametrize("ip", PUBLIC)
def test_a_public_address_may_be_dialled(ip):
    """In either version, and wrapped."""
    assert FetchRules().allows_ip(ip)


@pytest.mark.parametrize("ip", INSIDE)
def test_every_other_address_is_blocked(ip):
    """Loopback, private, link-local, shared, reserved, documentation, multicast; and whatever wraps one of them."""
    assert not FetchRules().allows_ip(ip)


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
