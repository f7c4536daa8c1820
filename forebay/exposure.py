"""Whether a server may listen where it was told to: what anybody can reach wants keys."""

from __future__ import annotations

import ipaddress

from forebay.errors import ConfigurationError


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach an address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def check_exposure(host: str, *, has_keys: bool, is_allowed: bool) -> None:
    """Refuse an API that strangers could use.

    Raises:
        ConfigurationError: the address is not loopback, there are no keys, and nobody said that this is meant.
    """
    if has_keys or is_allowed or is_loopback(host):
        return
    raise ConfigurationError(
        f"the API would answer anybody who reaches {host}: give it FOREBAY_API_KEYS (see `forebay key --help`), "
        "or say FOREBAY_ALLOW_OPEN=1 where something else keeps strangers out"
    )
