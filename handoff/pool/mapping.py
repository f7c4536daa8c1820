"""The pool's file on tmpfs: made whole, mapped, locked. What the kernel refuses is said plainly here."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from forebay.errors import ConfigurationError
from handoff.pool.table import SLOTS, PoolIdentity, Table, table_bytes

_MADV_POPULATE_READ = 22  # Linux 5.14; Python 3.11 has no names for them
_MADV_POPULATE_WRITE = 23


def create(path: Path, data_bytes: int) -> None:
    """Make the pool's file, with every byte of it reserved, and give it its name only when it is whole.

    Raises:
        ConfigurationError: no room on the file system, with the bytes needed and free; or a size of nothing.
        FileExistsError: there is one already.
    """
    if data_bytes < 1:
        raise ConfigurationError(f"a feature pool of {data_bytes} bytes holds nothing; give a larger --pool-bytes")
    total = table_bytes() + data_bytes
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        _reserve(fd, path, total)
        _write_header(fd, data_bytes)
        os.link(draft, path)  # unlike a rename, refuses to replace one that is in use
    finally:
        os.close(fd)
        draft.unlink()


def _reserve(fd: int, path: Path, total: int) -> None:
    stat = os.statvfs(path.parent)
    free = stat.f_bavail * stat.f_frsize
    if total > free:  # told before the reservation takes what is left from everybody else
        raise _no_room(path, total, free)
    try:
        os.posix_fallocate(fd, 0, total)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG):
            raise
        raise _no_room(path, total, free) from error


def _no_room(path: Path, total: int, free: int) -> ConfigurationError:
    return ConfigurationError(
        f"the feature pool needs {total} bytes on {path.parent}, {free} are free; "
        "give a smaller --pool-bytes, or in a container a larger shm_size (or --ipc=host)"
    )


def _write_header(fd: int, data_bytes: int) -> None:
    with mmap.mmap(fd, table_bytes()) as memory:
        table = Table(memory)
        table.write_identity(PoolIdentity(secrets.token_hex(8), SLOTS, table_bytes(), data_bytes))
        del table  # its views keep the map open


class Mapping:
    """One process' map of the pool: the table writable, the data writable only for those who write features."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self._fd = os.open(path, os.O_RDWR)
        try:
            if os.fstat(self._fd).st_size < table_bytes():
                raise ConfigurationError(f"{path}: not a feature pool: shorter than its table")
            self._table_memory = mmap.mmap(self._fd, table_bytes())
            self.table = Table(self._table_memory)
            self.identity = self._check(path)
            prot = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
            identity = self.identity
            self.data = mmap.mmap(self._fd, identity.data_bytes, mmap.MAP_SHARED, prot, offset=identity.data_offset)
        except BaseException:
            os.close(self._fd)
            raise
        self._threads = threading.Lock()
        self._prefault(writable)

    def _check(self, path: Path) -> PoolIdentity:
        try:
            identity = self.table.identity()
        except ValueError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        size = os.fstat(self._fd).st_size
        if size < identity.data_offset + identity.data_bytes:  # touching beyond the end would be a SIGBUS
            raise ConfigurationError(f"{path}: {size} bytes, its header promises {identity.data_bytes} of data")
        return identity

    def _prefault(self, writable: bool) -> None:
        # Page faults on first touch cost more than the copy itself; take them all now. An older kernel refuses the
        # advice, and then they come one by one.
        with suppress(OSError):
            self.data.madvise(_MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ)

    @contextmanager
    def locked(self) -> Iterator[Table]:
        """The table, for this process and thread alone. The kernel drops the lock when its holder dies."""
        with self._threads:
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield self.table
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Unmap, as far as nobody still holds a view; the kernel does the rest at the end of the process."""
        del self.table
        with suppress(BufferError):
            self.data.close()
        with suppress(BufferError):
            self._table_memory.close()
        os.close(self._fd)
