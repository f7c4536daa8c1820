"""The folders of a run: its own, gone with it; and those of killed runs, gone with the next."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from launch import folders as module
from launch.folders import Folders, remove_abandoned


@pytest.fixture(autouse=True)
def places(shm, tmp_path, monkeypatch):
    """Shared memory and disk of the test's own."""
    monkeypatch.setattr(module, "SHM", shm)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return shm, tmp_path


def left(places):
    return sorted(path.name for place in places for path in place.iterdir())


def killed(folders):
    """As if the launcher had been killed: the kernel gives its lock back, nothing else happens."""
    os.close(folders.lock_fd)


def test_a_run_has_two_folders_under_one_name(places):
    """Nobody else can look into them."""
    folders = Folders.make()

    assert (folders.shm, folders.disk) == (places[0] / folders.name, places[1] / folders.name)
    assert folders.name.startswith("forebay-up-")
    assert {path.stat().st_mode & 0o777 for path in (folders.shm, folders.disk)} == {0o700}


def test_a_run_leaves_nothing(places):
    """Whatever was put into its folders; twice is once."""
    folders = Folders.make()
    (folders.shm / "pool").write_bytes(b"x")
    (folders.disk / "media").mkdir()
    (folders.disk / "media" / "a").write_bytes(b"x")

    folders.remove()
    folders.remove()

    assert left(places) == []


def test_the_next_run_removes_what_a_killed_one_left(places):
    """Both folders, by the lock that nobody holds."""
    first = Folders.make()
    (first.shm / "pool").write_bytes(b"x")
    killed(first)

    second = Folders.make()

    assert left(places) == [second.name] * 2


def test_a_run_that_lives_is_left_alone(places):
    """Two runs on one machine do not see each other."""
    first, second = Folders.make(), Folders.make()

    assert remove_abandoned() == []
    assert left(places) == sorted([first.name, second.name] * 2)


def test_a_run_in_another_process_is_told_by_its_lock(places):
    """Alive while it lives, abandoned when it was killed."""
    name = "forebay-up-12345678"
    (places[0] / name).mkdir()
    program = f"""
import fcntl, os, sys
fd = os.open({str(places[0] / name / "launcher.lock")!r}, os.O_CREAT | os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert remove_abandoned() == []

        process.kill()
        process.wait()

        assert remove_abandoned() == [name]
    assert left(places) == []


def test_what_is_not_a_run_is_not_touched(places):
    """A folder without a lock may be a run that is just being made; other names are other people's."""
    (places[0] / "forebay-up-unlocked").mkdir()
    (places[0] / "forebay-prod-node").mkdir()
    (places[0] / "forebay-up-a-file").touch()
    (places[1] / "forebay-up-unlocked").mkdir()

    assert remove_abandoned() == []
    assert len(left(places)) == 4


def test_a_run_is_locked_before_it_can_be_found(places, monkeypatch):
    """Another launcher that starts at the same moment must not take it for abandoned."""
    seen = []
    rename = Path.rename

    def spy(self, target):
        with self.open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(remove_abandoned())
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", spy)

    Folders.make()

    assert seen == [[]]
