"""Telling a supervisor how a process stands."""

import socket

import pytest

from forebay.notify import notify


@pytest.fixture
def supervisor(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(1)
        yield listening


def test_facts_arrive_one_a_line(supervisor, monkeypatch):
    """As systemd writes them."""
    monkeypatch.setenv("NOTIFY_SOCKET", supervisor.getsockname())

    notify(READY=1, STATUS="up")

    assert supervisor.recv(100) == b"READY=1\nSTATUS=up"


def test_nobody_is_told_when_nobody_asks(monkeypatch):
    """A process started by hand has no supervisor."""
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)

    assert notify(READY=1) is None


def test_a_supervisor_that_has_gone_is_no_reason_to_fail(tmp_path, monkeypatch):
    """The process goes on."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))

    notify(READY=1)

    assert list(tmp_path.iterdir()) == []


def test_an_abstract_socket_is_reached(monkeypatch):
    """systemd writes its name with an at sign."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0forebay-test-notify")
        listening.settimeout(1)
        monkeypatch.setenv("NOTIFY_SOCKET", "@forebay-test-notify")

        notify(STOPPING=1)

        assert listening.recv(100) == b"STOPPING=1"
