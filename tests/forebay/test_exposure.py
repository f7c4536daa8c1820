"""What anybody can reach wants keys."""

import pytest

from forebay.errors import ConfigurationError
from forebay.exposure import check_exposure, is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_nothing(host):
    """It is one's own machine."""
    assert is_loopback(host)
    check_exposure(host, has_keys=False, is_allowed=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "fe80::1%eth0", "example.org", "128.0.0.1", ""])
def test_every_other_address_needs_keys_or_a_word(host):
    """The message says both ways out."""
    with pytest.raises(ConfigurationError, match=r"FOREBAY_API_KEYS.*FOREBAY_ALLOW_OPEN=1"):
        check_exposure(host, has_keys=False, is_allowed=False)
    check_exposure(host, has_keys=True, is_allowed=False)
    check_exposure(host, has_keys=False, is_allowed=True)
