"""The note in a node's folder: whose it is, for an operator who has nothing else."""

from __future__ import annotations

import pytest

from forebay import ModelSource
from workers.about import About
from workers.settings import WorkerSettings

SETTINGS = WorkerSettings(
    secret=b"0123456789abcdef",
    redis_url="redis://user:password@host:6379/3",
    deployment="shop",
    node="n1",
    models=(ModelSource("toy"),),
)


def test_what_was_written_is_read(shm):
    """Deployment, node, models and the place of Redis, by which the janitor of this node can be asked."""
    about = About.of(SETTINGS, ("toy",))

    about.write(shm)

    assert About.read(shm) == about == About("shop", "n1", "redis://…@host:6379/3", ("toy",))


def test_the_password_stays_where_it_is(shm):
    """Whoever may read the folder need not be able to use Redis."""
    About.of(SETTINGS, ()).write(shm)

    [path] = shm.iterdir()
    assert "password" not in path.read_text()


@pytest.mark.parametrize(
    ("url", "lacks"),
    [
        ("redis://u:p@host/0", True),
        ("sentinel://a/m?sentinel_password=p", True),
        ("sentinel://a/m", False),
        ("unix://:p@/run/redis.sock", True),
        ("redis://host/0", False),
    ],
)
def test_one_knows_that_there_is_a_password(url, lacks):
    """And that the note alone does not do."""
    assert About.of(WorkerSettings(secret=b"0" * 16, redis_url=url, models=()), ()).lacks_password is lacks


def test_a_folder_without_a_note_is_no_error(shm):
    """No worker has started there yet."""
    assert About.read(shm) is None


def test_a_new_note_replaces_the_old_one(shm):
    """A worker that starts again may serve other models."""
    for models in (("a",), ("b", "c")):
        About.of(SETTINGS, models).write(shm)

    assert About.read(shm).models == ("b", "c")
    assert len(list(shm.iterdir())) == 1
