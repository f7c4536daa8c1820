"""``forebay key`` and ``forebay api``: a key is shown once, and an API that strangers reach wants one."""

import os
import subprocess
import sys

import pytest

from api.keyring import KeyRing


def forebay(*arguments, **env):
    """The command, as a shell runs it."""
    given = {**os.environ, "FOREBAY_SECRET": "s" * 32, **env}
    argv = [sys.executable, "-m", "forebay", *arguments]
    return subprocess.run(argv, env=given, capture_output=True, text=True, check=False, timeout=60)


def test_a_new_key_opens_the_door_that_its_file_guards(tmp_path):
    """The file has the hash and is its owner's; the key is on standard output alone."""
    path = tmp_path / "keys.toml"

    first = forebay("key", "acme", "--file", str(path))
    second = forebay("key", "boss", "--operator", FOREBAY_API_KEYS=str(path))

    ring = KeyRing(path)
    assert [ring.tenant(made.stdout.strip()).name for made in (first, second)] == ["acme", "boss"]
    assert ring.tenant(second.stdout.strip()).is_operator
    assert path.stat().st_mode & 0o777 == 0o600
    assert first.stdout.strip() not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["no/name"], "TENANT 'no/name'"), (["acme", "--file", "/nowhere/keys.toml"], "/nowhere/keys.toml")],
)
def test_a_key_that_cannot_be_made_says_why(arguments, told):
    """And shows none."""
    made = forebay("key", *arguments)

    assert (made.returncode, made.stdout) == (2, "")
    assert told in made.stderr


def test_a_file_that_is_damaged_gets_nothing_added(tmp_path):
    """It would shut everybody out at the next start."""
    path = tmp_path / "keys.toml"
    path.write_text("[[keys]]\n")

    made = forebay("key", "acme", "--file", str(path))

    assert (made.returncode, path.read_text()) == (2, "[[keys]]\n")


@pytest.mark.service
@pytest.mark.parametrize("command", ["api", "up"])
def test_an_api_that_strangers_reach_wants_keys(redis_url, command):
    """It does not start without, and says what to do."""
    more = ["--model", "efficientnet-lite0"] if command == "up" else []
    started = forebay(command, "--host", "0.0.0.0", "--port", "0", *more, REDIS_URL=redis_url)

    assert started.returncode == 2
    assert "FOREBAY_API_KEYS" in started.stderr
