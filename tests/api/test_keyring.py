"""The file of API keys: hashes alone, read strictly, changed while the API runs."""

import logging

import pytest

from api.keyring import KeyRing, hash_of_key, lines_for, read_keys
from forebay.errors import ConfigurationError
from handoff.moves import Quota

ACME, OTHER = "key-of-acme", "key-of-other"
FILE = f"""
[tenants.acme]
requests = 4
bytes = "2MiB"

[[keys]]
tenant = "acme"
sha256 = "{hash_of_key(ACME)}"

[[keys]]
tenant = "other"
sha256 = "{hash_of_key(OTHER)}"
operator = true
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(FILE)
    return path


def test_a_key_finds_its_tenant_with_the_limits_it_has(path):
    """Its own where it has some, the deployment's where it has none."""
    ring = KeyRing(path, Quota(live=9, per_second=5))

    acme, other = ring.tenant(ACME), ring.tenant(OTHER)

    assert (acme.name, acme.quota, acme.is_operator) == ("acme", Quota(4, 2 << 20, 5), False)
    assert (other.name, other.quota, other.is_operator) == ("other", Quota(9, 0, 5), True)


@pytest.mark.parametrize("key", ["", "key", ACME.upper(), hash_of_key(ACME), ACME + " "])
def test_any_other_text_is_no_key(path, key):
    """Least of all what the file holds."""
    assert KeyRing(path).tenant(key) is None


def test_one_tenant_may_have_several_keys():
    """So that one can be replaced without a pause."""
    both = read_keys(lines_for("acme", "a", operator=False) + lines_for("acme", "b", operator=True))

    assert {one.name for one in both.values()} == {"acme"}
    assert [one.is_operator for one in both.values()] == [False, True]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[keys]]\ntenant = 'a'", "keys[0].sha256: Field required"),
        ("[[keys]]\ntenant = 'a b'\nsha256 = '" + "0" * 64 + "'", "keys[0].tenant: "),
        ("[[keys]]\ntenant = 'a'\nsha256 = 'plain-key'", "keys[0].sha256: "),
        ("[[keys]]\ntenant = 'a'\nsha256 = '" + "0" * 64 + "'\nadmin = true", "keys[0].admin: Extra inputs"),
        ("[tenants.a]\nrequests = 1", "tenants.a has limits and no key"),
        ("[tenants.a]\nrequests = -1", "tenants.a.requests: "),
        ("[tenants.a]\nbytes = 'much'", "tenants.a.bytes: "),
        (lines_for("a", "k", operator=False) + lines_for("b", "k", operator=False), "keys[1].sha256: another entry"),
        (lines_for("a", "k", operator=False) + lines_for("a", "k", operator=True), "keys[1].sha256: another entry"),
        ("keys = ", "Invalid value"),
    ],
)
def test_a_file_that_is_wrong_stops_the_start_with_its_place(tmp_path, text, told):
    """A misspelt word must not quietly leave a door open."""
    (tmp_path / "keys.toml").write_text(text)

    with pytest.raises(ConfigurationError, match="FOREBAY_API_KEYS=") as caught:
        KeyRing(tmp_path / "keys.toml")

    assert told in str(caught.value)


def test_a_missing_file_stops_the_start(tmp_path):
    """Nobody is let in because of a wrong path."""
    with pytest.raises(ConfigurationError, match="No such file"):
        KeyRing(tmp_path / "keys.toml")


def test_a_changed_file_is_read_again(path, monkeypatch):
    """A key that is taken out is worth nothing a second later."""
    monkeypatch.setattr("api.keyring._LOOK_EVERY_S", 0)
    ring = KeyRing(path)

    path.write_text(lines_for("acme", "new", operator=False))

    assert ring.tenant(ACME) is None
    assert ring.tenant("new").name == "acme"


@pytest.mark.parametrize("broken", ["cut off", "nested without end"])
def test_a_file_that_becomes_unreadable_leaves_the_keys_as_they_were(path, monkeypatch, caplog, broken):
    """A slip of an editor must not shut everybody out; the log says so."""
    monkeypatch.setattr("api.keyring._LOOK_EVERY_S", 0)
    ring = KeyRing(path)
    path.write_text("[[keys" if broken == "cut off" else "x = " + "[" * 5000)

    with caplog.at_level(logging.ERROR):
        assert ring.tenant(ACME).name == "acme"

    assert "API keys stay as they were" in caplog.text
    path.unlink()
    assert ring.tenant(ACME).name == "acme"
