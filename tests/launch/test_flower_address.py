"""Flower's pages answer anybody who reaches them, so who can reach them is decided first."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from forebay import ConfigurationError
from launch.flower import _check_address, flower


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLOWER_BASIC_AUTH", raising=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_loopback_flower_needs_no_password(host):
    """Whoever is on the machine is the operator."""
    _check_address(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.5", "flower.example.org", "", "localhost.evil"]
)
def test_beyond_loopback_flower_needs_a_password(host, monkeypatch):
    """A name that may resolve to anything counts as beyond; an empty password is none."""
    for password in (None, ""):
        if password is not None:
            monkeypatch.setenv("FLOWER_BASIC_AUTH", password)
        with pytest.raises(ConfigurationError, match="beyond loopback Flower needs FLOWER_BASIC_AUTH=user:password"):
            _check_address(host)

    monkeypatch.setenv("FLOWER_BASIC_AUTH", "user:password")
    _check_address(host)


def test_the_command_refuses_before_anything_is_started():
    """One line, exit status 2."""
    done = CliRunner().invoke(flower, ["--host", "0.0.0.0"], env={"FOREBAY_SECRET": "0123456789abcdef"})

    assert done.exit_code == 2
    assert "--host 0.0.0.0: beyond loopback" in done.output
