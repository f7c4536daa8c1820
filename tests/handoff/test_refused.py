"""Media that have killed the children that decoded them."""

from __future__ import annotations

import pytest

from handoff import refused
from handoff.refused import Refused, note_kill, pardon_all

pytestmark = pytest.mark.service

GOOD, BAD = "sha256:" + "0" * 64, "sha256:" + "f" * 64


def test_the_second_death_is_one_too_many(client, keys):
    """Not the first: whatever kills a child by chance kills it over something."""
    assert [note_kill(client, keys, BAD, life) for life in ("one", "two")] == [False, True]

    known = Refused(client, keys)

    assert (known.among([GOOD, BAD]), known.among([GOOD])) == (BAD, "")


def test_what_is_refused_is_asked_once_a_second(client, keys, monkeypatch):
    """A round trip for each task would be dear for what hardly ever happens."""
    known = Refused(client, keys)
    assert known.among([BAD]) == ""
    for life in ("one", "two"):
        note_kill(client, keys, BAD, life)

    assert known.among([BAD]) == ""
    monkeypatch.setattr(refused, "_FRESH_S", 0.0)
    assert known.among([BAD]) == BAD


def test_an_operator_can_pardon_all(client, keys):
    """And then two more deaths are needed."""
    for life in ("one", "two"):
        note_kill(client, keys, BAD, life)

    assert pardon_all(client, keys) == 1

    assert Refused(client, keys).among([BAD]) == ""
    assert note_kill(client, keys, BAD, "three") is False


def test_both_keys_have_an_end_and_a_bound(client, keys, monkeypatch):
    """Nothing grows for ever."""
    monkeypatch.setattr(refused, "_MOST_DIGESTS", 3)
    for number in range(5):
        for life in ("one", "two"):
            note_kill(client, keys, f"sha256:{number:064d}", life)

    assert client.zcard(keys.refused) == 3
    assert 0 < client.ttl(keys.kills(f"sha256:{4:064d}")) <= 24 * 3600
    assert 0 < client.ttl(keys.refused) <= 7 * 24 * 3600


def test_one_death_that_is_noted_twice_is_one(client, keys):
    """A client repeats what it was not answered; the item is innocent so far."""
    assert [note_kill(client, keys, BAD, "one") for _ in range(3)] == [False] * 3

    assert Refused(client, keys).among([BAD]) == ""
