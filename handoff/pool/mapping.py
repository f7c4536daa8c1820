"""The pool's file on tmpfs: made whole, mapped, locked. What the kernel refuses is said plainly here."""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from forebay.errors import ConfigurationError, Failed
from handoff.drafts import draft
from handoff.pool import ledger, space
from handoff.pool.lock import TableLock
from handoff.pool.placement import ANYWHERE, Placement, populate, prefer_huge_pages
from handoff.pool.table import (
    PAGE,
    Number,
    OtherReleaseError,
    PoolIdentity,
    Table,
    aligned,
    read_identity,
    slots_for,
    table_bytes,
)


def create(path: Path, data_bytes: int, installation: str = "", placement: Placement = ANYWHERE) -> None:
    """Make the pool's file, with every byte of it reserved, and give it its name only when it is whole.

    Raises:
        ConfigurationError: no room on the file system, with the bytes needed and free; a size of nothing; or memory
            that the kernel does not place as asked.
        FileExistsError: there is one already.
    """
    if data_bytes < 1:
        raise ConfigurationError(f"a feature pool of {data_bytes} bytes holds nothing; give a larger --pool-bytes")
    slots = slots_for(data_bytes)
    offset = aligned(table_bytes(slots), placement.page_bytes)
    identity = PoolIdentity(secrets.token_hex(8), installation, slots, offset, data_bytes)
    with draft(path) as (hidden, fd):
        _reserve(fd, path, offset + data_bytes, placement)
        _write_head(fd, identity)
        os.link(hidden, path)  # unlike a rename, refuses to replace one that is in use


def _reserve(fd: int, path: Path, total: int, placement: Placement) -> None:
    stat = os.statvfs(path.parent)
    free = stat.f_bavail * stat.f_frsize
    if total > free:  # told before the reservation takes what is left from everybody else
        raise _no_room(path, total, free)
    try:
        placement.apply(fd, total)
        os.posix_fallocate(fd, 0, total)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EFAULT):
            raise
        raise _no_room(path, total, free) from error


def _no_room(path: Path, total: int, free: int) -> ConfigurationError:
    return ConfigurationError(
        f"the feature pool needs {total} bytes on {path.parent}, {free} are free; "
        "give a smaller --pool-bytes, or in a container a larger shm_size (or --ipc=host)"
    )


def _write_head(fd: int, identity: PoolIdentity) -> None:
    with mmap.mmap(fd, table_bytes(identity.slots)) as memory:
        table = Table(memory, identity.slots)
        table.write_identity(identity)
        space.clear(table, identity.data_bytes)
        table.close()  # its views keep the map open


class ForeignPoolError(ConfigurationError):
    """The pool is another installation's."""


def inspect(path: Path, installation: str) -> PoolIdentity:
    """What the head of a pool says, without mapping it.

    Raises:
        ForeignPoolError: it is another installation's.
        ConfigurationError: not a pool, another release's, or damaged.
        FileNotFoundError: there is none.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        return _check(fd, path, installation)
    finally:
        os.close(fd)


def _check(fd: int, path: Path, installation: str | None) -> PoolIdentity:
    size = os.fstat(fd).st_size
    if size < PAGE:
        raise ConfigurationError(f"{path}: not a feature pool: shorter than its table")
    try:
        identity = read_identity(os.pread(fd, PAGE, 0))
    except OtherReleaseError as error:
        _check_owner(path, error.installation, installation)
        raise ConfigurationError(f"{path}: {error}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    _check_owner(path, identity.installation, installation)
    if size < identity.data_offset + identity.data_bytes:  # touching beyond the end would be a SIGBUS
        raise ConfigurationError(
            f"{path}: {size} bytes, its header promises {identity.data_bytes} of data after "
            f"{identity.data_offset} of table"
        )
    return identity


def _check_owner(path: Path, installation: str, ours: str | None) -> None:
    if ours is not None and installation not in ("", ours):
        raise ForeignPoolError(
            f"{path} belongs to another installation of Forebay, with another FOREBAY_SECRET; "
            "give this one a FOREBAY_DEPLOYMENT or FOREBAY_RUN_DIR of its own"
        )


class Mapping:
    """One process' map of the pool: the table writable, the data writable only for those who write features."""

    def __init__(self, path: Path, *, writable: bool, installation: str | None = None, prefault: bool = True) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR)
        except OSError as error:
            raise ConfigurationError(f"{path}: the feature pool cannot be opened: {error.strerror}") from error
        try:
            self.identity = _check(self._fd, path, installation)
            self._table_memory = mmap.mmap(self._fd, table_bytes(self.identity.slots))
            self._table = Table(self._table_memory, self.identity.slots)
            prot = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            identity = self.identity
            self.data = mmap.mmap(self._fd, identity.data_bytes, mmap.MAP_SHARED, prot, offset=identity.data_offset)
        except BaseException:
            os.close(self._fd)
            raise
        self.address = int(np.frombuffer(self.data, np.uint8, 1).__array_interface__["data"][0])
        """Where the data begins in this process' memory."""
        self._looking, self._changing = _Looking(self), _Changing(self)
        self._total = identity.data_offset + identity.data_bytes
        self._lock = TableLock(self._fd, str(path), partial(self._table.numbers.__getitem__, Number.HOLDER))
        # Page faults on first touch cost more than the copy itself; take them all now. An older kernel refuses the
        # advice, and then they come one by one.
        prefer_huge_pages(self.data, identity.data_offset)
        if prefault:
            with suppress(OSError):
                populate(self.data, writable=writable)

    def locked(self) -> AbstractContextManager[Table]:
        """The table, for this process and thread alone. The kernel drops the lock when its holder dies.

        Raises:
            Failed: somebody has cut the file off; what is gone must not be touched, for that would be a SIGBUS.
        """
        return self._looking

    def changing(self) -> AbstractContextManager[Table]:
        """As ``locked``. Whoever dies, or is interrupted, within leaves a mark, and the next one repairs the table."""
        return self._changing

    def _enter(self) -> Table:
        self._lock.take()
        try:
            self._check_whole()
            self._table.numbers[Number.HOLDER] = self._lock.pid
            if self._table.numbers[Number.DIRTY]:
                ledger.repair(self._table, self.identity.data_bytes)
                self._table.numbers[Number.DIRTY] = 0
        except BaseException:
            self._leave()
            raise
        return self._table

    def _leave(self) -> None:
        self._lock.give()

    def settle(self) -> None:
        """Give back the lock that this thread holds because an exception came between taking it and giving it back."""
        self._lock.settle()

    def _check_whole(self) -> None:
        size = os.lseek(self._fd, 0, os.SEEK_END)  # a third of the price of fstat
        if size < self._total:
            raise Failed(
                "pool_damaged", f"{self._path} was cut off: {size} of {self._total} bytes are left", status=503
            )

    def is_in_place(self) -> bool:
        """Whether the file is still whole, and still the one that its name leads to."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino) and ours.st_size >= self._total

    def close(self) -> None:
        """Unmap, as far as nobody still holds a view; the kernel does the rest at the end of the process."""
        self._table.close()
        with suppress(BufferError):
            self.data.close()
        with suppress(BufferError):
            self._table_memory.close()
        self._lock.close()


class _Looking(AbstractContextManager[Table]):
    """Holds the lock. A class, because a generator's context manager costs as much as the lock."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def __enter__(self) -> Table:
        return self._mapping._enter()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._mapping._leave()


class _Changing(_Looking):
    """Holds the lock, with a mark in the table until the change is whole."""

    def __enter__(self) -> Table:
        table = self._mapping._enter()
        table.numbers[Number.DIRTY] = 1
        return table

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._mapping._table.numbers[Number.DIRTY] = 0
        self._mapping._leave()
