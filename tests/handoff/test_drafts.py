"""Drafts: a file gets its name when it is whole, and what a dead writer leaves is known to be nobody's."""

from __future__ import annotations

import fcntl
import os

import pytest

from handoff import drafts
from handoff.drafts import abandoned, draft, is_locked, write_whole


def leave(folder, name="note", size_bytes=0, *, age_s=60.0):
    """What a writer leaves that was killed some time ago."""
    path = folder / f".draft-00000000-{name}"
    with path.open("wb") as file:
        file.write(bytes(size_bytes))
    moment = path.stat().st_mtime - age_s
    os.utime(path, (moment, moment))
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_in_one_step(shm):
    """Until it is whole it goes by another name, and afterwards nothing of that is left."""
    write_whole(shm / "note", b"old")

    with draft(shm / "note") as (hidden, fd):
        os.write(fd, b"new")
        assert (shm / "note").read_bytes() == b"old"
        hidden.rename(shm / "note")

    assert (shm / "note").read_bytes() == b"new"
    assert names(shm) == ["note"]


def test_a_draft_that_fails_leaves_the_old_file_and_no_other(shm):
    """Whatever went wrong: a full disk, a signal."""
    write_whole(shm / "note", b"old")

    with pytest.raises(OSError, match="no room"), draft(shm / "note"):
        raise OSError("no room")

    assert ((shm / "note").read_bytes(), names(shm)) == (b"old", ["note"])


def test_a_living_writers_draft_is_its_own(shm):
    """However long it takes: a pool of many gigabytes is reserved page by page."""
    with draft(shm / "pool") as (hidden, _):
        os.utime(hidden, (1, 1))

        assert abandoned(shm) == []


def test_a_dead_writers_draft_is_abandoned_with_all_that_it_takes(shm):
    """Nobody holds its lock."""
    path = leave(shm, size_bytes=10_000)

    [found] = abandoned(shm)

    assert found.path == path
    assert found.size_bytes == path.stat().st_blocks * 512 >= 10_000


def test_a_young_draft_is_given_the_time_to_be_locked(shm):
    """Between its birth and its lock there is a moment."""
    leave(shm, age_s=1.0)

    assert abandoned(shm) == []


def test_files_with_names_are_no_drafts(shm):
    """However old they are."""
    write_whole(shm / "note", b"old")
    os.utime(shm / "note", (1, 1))

    assert abandoned(shm) == []


def test_an_abandoned_draft_is_removed_once(shm):
    """Whoever comes second says that it did nothing."""
    leave(shm)
    [first], [second] = abandoned(shm), abandoned(shm)

    assert (first.remove(), second.remove()) == (True, False)
    assert names(shm) == []


def test_a_draft_that_has_got_its_name_meanwhile_stays(shm):
    """Its hidden name is gone, and that is all that would be removed."""
    leave(shm).rename(shm / "note")
    late = drafts.Abandoned(shm / ".draft-00000000-note", 0)

    assert late.remove() is False
    assert drafts._look(late.path) is None
    assert names(shm) == ["note"]


def test_whoever_looks_is_not_taken_for_a_writer(shm):
    """Two who look at the same time see the same: nobody holds it."""
    path = leave(shm)
    with path.open("r+b") as one, path.open("r+b") as other:
        assert is_locked(one.fileno()) is False
        assert is_locked(other.fileno()) is False

        fcntl.flock(one, fcntl.LOCK_UN)
        fcntl.flock(other, fcntl.LOCK_EX)
        assert is_locked(one.fileno()) is True
