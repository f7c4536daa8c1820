"""A node's place on tmpfs: made once, kept while it is of use, made anew when it is of none and nobody is in it."""

import logging
import os

import pytest

from forebay import ConfigurationError, ModelSource
from handoff.pool import FeatureCache, Owner, Pool
from handoff.pool.table import HEADER
from workers.place import prepare_node
from workers.settings import WorkerSettings

SIZE = 16 << 20


def settings(shm, *, pool_bytes=SIZE, secret=b"0123456789abcdef"):
    return WorkerSettings(secret=secret, models=(ModelSource("toy"),), run_dir=shm / "node", pool_bytes=pool_bytes)


def pool_id(given):
    pool = Pool(given.pool_path, "test", writable=False, installation=given.installation)
    try:
        return pool.id, pool.data_bytes
    finally:
        pool.close()


def test_a_pool_is_made_once(shm):
    """A worker that starts again finds it, and what is cached in it."""
    given = settings(shm)
    prepare_node(given)
    first = pool_id(given)

    prepare_node(given)

    assert pool_id(given) == first == (first[0], SIZE)
    assert given.folder.stat().st_mode & 0o777 == 0o700


def test_a_pool_of_another_size_is_made_anew_when_nobody_uses_it(shm, caplog):
    """What was asked for is what there is."""
    prepare_node(settings(shm))
    larger = settings(shm, pool_bytes=2 * SIZE)

    prepare_node(larger)

    assert pool_id(larger)[1] == 2 * SIZE
    assert [record.message for record in caplog.records] == ["pool made anew"]


def test_a_pool_of_another_size_stays_while_somebody_uses_it(shm, caplog):
    """A scheduler may be reading it; the operator is told."""
    prepare_node(settings(shm))
    before = pool_id(settings(shm))
    life = Owner(settings(shm).folder, "scheduler")

    prepare_node(settings(shm, pool_bytes=2 * SIZE))

    assert pool_id(settings(shm)) == before
    assert caplog.records[-1].levelno == logging.WARNING
    life.close()


def damaged(path, how):
    if how == "cut off":
        os.truncate(path, path.stat().st_size - 1)
    elif how == "empty":
        os.truncate(path, 0)
    else:
        with path.open("r+b") as file:
            file.write(b"another")


@pytest.mark.parametrize("how", ["cut off", "empty", "no pool"])
def test_a_pool_that_is_of_no_use_is_made_anew(shm, how):
    """Or the node would never work again without somebody's hand."""
    given = settings(shm)
    prepare_node(given)
    damaged(given.pool_path, how)

    prepare_node(given)

    assert pool_id(given)[1] == SIZE


def test_a_pool_that_is_of_no_use_and_in_use_is_left_to_the_operator(shm):
    """Somebody may still answer from it."""
    given = settings(shm)
    prepare_node(given)
    damaged(given.pool_path, "cut off")
    life = Owner(given.folder, "scheduler")

    with pytest.raises(ConfigurationError, match=r"its header promises .* 1 processes use it, scheduler-"):
        prepare_node(given)
    life.close()


def test_another_installations_pool_is_never_touched(shm):
    """Not even when nobody is in it."""
    given = settings(shm)
    prepare_node(given)
    before = given.pool_path.stat()

    with pytest.raises(ConfigurationError, match="belongs to another installation"):
        prepare_node(settings(shm, secret=b"another one's secret", pool_bytes=2 * SIZE))

    after = given.pool_path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_another_installations_pool_of_another_release_is_never_touched_either(shm):
    """Whose it is stands in the same place in every release; our own is made anew."""
    given = settings(shm)
    prepare_node(given)
    with given.pool_path.open("r+b") as file:
        file.seek(HEADER.fields["version"][1])
        file.write(b"\x63\0\0\0")
    before = given.pool_path.stat()

    with pytest.raises(ConfigurationError, match="belongs to another installation"):
        prepare_node(settings(shm, secret=b"another one's secret"))
    assert given.pool_path.stat().st_ino == before.st_ino

    prepare_node(given)
    assert pool_id(given)[1] == SIZE


@pytest.mark.parametrize("deed", ["removed", "replaced", "cut off"])
def test_a_pool_that_is_no_longer_in_its_place_is_noticed(shm, deed):
    """Who goes on with it would talk to nobody, or touch what is not there."""
    given = settings(shm)
    prepare_node(given)
    pool = Pool(given.pool_path, "test", writable=False)
    assert pool.is_in_place()

    if deed == "cut off":
        damaged(given.pool_path, deed)
    else:
        given.pool_path.unlink()
    if deed == "replaced":
        prepare_node(given)

    assert not pool.is_in_place()
    pool.close()


def test_the_cache_has_a_quarter_of_the_pool_unless_told(shm):
    """And nothing when it is turned off."""
    assert settings(shm).cache_budget == SIZE // 4
    given = settings(shm)
    prepare_node(given)
    pool = Pool(given.pool_path, "test", writable=False)
    assert FeatureCache(pool).budget_bytes == 0  # until a child says so
    pool.close()
