"""A node's place on tmpfs: its folder, and the pool in it. Made if need be; one that nobody can use is made anew."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.errors import ConfigurationError
from handoff.pool import Placement, Pool
from handoff.pool.mapping import ForeignPoolError, inspect
from handoff.pool.owners import the_living
from workers.settings import WorkerSettings

log = logging.getLogger(__name__)


def prepare_node(settings: WorkerSettings) -> None:
    """Make the node's folder and its pool, unless they are there.

    A pool of another size or another release, or one that was cut off, is made anew when no process uses it.

    Raises:
        ConfigurationError: no room for the pool, no memory where it is to lie, another installation's pool, or one
            that is of no use and in use all the same.
    """
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    placement = Placement(settings.huge_pages, settings.numa_node)
    with _alone(settings.folder):
        if not _is_usable(settings):
            Pool.create(settings.pool_path, settings.pool_bytes, settings.installation, placement)


def _is_usable(settings: WorkerSettings) -> bool:
    """Whether there is a pool that we can work with; one that is of no use to anybody is removed."""
    path = settings.pool_path
    try:
        size = inspect(path, settings.installation).data_bytes
    except FileNotFoundError:
        return False
    except ForeignPoolError:
        raise
    except ConfigurationError as error:
        _remove(path, str(error), settings.folder)
        return False
    if size == settings.pool_bytes:
        log.info("pool found", extra={"path": str(path), "size_bytes": size})
        return True
    users = the_living(settings.folder)
    if not users:
        _remove(path, f"it has {size} bytes, {settings.pool_bytes} are asked for", settings.folder)
        return False
    log.warning(
        "the pool has another size than asked for, and stays while others use it",
        extra={"path": str(path), "asked_bytes": settings.pool_bytes, "size_bytes": size, "users": len(users)},
    )
    return True


def _remove(path: Path, why: str, folder: Path) -> None:
    users = the_living(folder)
    if users:
        raise ConfigurationError(f"{why}; {len(users)} processes use it, {users[0]} among them: stop them first")
    log.warning("pool made anew", extra={"path": str(path), "reason": why})
    path.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two that start at once do not remove each other's pool."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
