"""Where the kernel is to put the pool's memory: huge pages, a NUMA node. Both are asked for before the first touch."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from forebay.errors import ConfigurationError
from handoff.pool.table import PAGE

# Python 3.11 has no names for these.
_MADV_HUGEPAGE = 14
_MADV_POPULATE_READ = 22  # Linux 5.14
_MADV_POPULATE_WRITE = 23
_MPOL_BIND = 2
_HUGE_PAGE = 2 << 20
_SHMEM_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
_FORCED = "[force]"
_MBIND = {"x86_64": 237, "aarch64": 235}


def prefer_huge_pages(memory: mmap.mmap, offset: int) -> None:
    """Map a pool that was made in huge pages, which its data's place in the file shows, by them."""
    if offset % _HUGE_PAGE == 0:
        with suppress(OSError):  # a kernel without them
            memory.madvise(_MADV_HUGEPAGE)


def populate(memory: mmap.mmap, *, writable: bool) -> None:
    """Take every page fault of a map now.

    Raises:
        OSError: the kernel is older than 5.14, or there is no memory.
    """
    memory.madvise(_MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ)


@dataclass(frozen=True, slots=True)
class Placement:
    """What is asked of the kernel; by default nothing."""

    huge_pages: bool = False
    numa_node: int | None = None

    @property
    def page_bytes(self) -> int:
        """What the data of the pool is aligned to."""
        return _HUGE_PAGE if self.huge_pages else PAGE

    def apply(self, fd: int, total: int) -> None:
        """Fill a new file of ``total`` bytes with memory placed so.

        Raises:
            ConfigurationError: the kernel does not know the node, or gives shared memory no huge pages.
            OSError: no room.
        """
        if self == ANYWHERE:
            return
        os.ftruncate(fd, total)
        with mmap.mmap(fd, total) as memory:
            if self.numa_node is not None:
                _bind(memory, total, self.numa_node)
            if self.huge_pages:
                _check_huge_pages(fd)
                memory.madvise(_MADV_HUGEPAGE)
            populate(memory, writable=True)


def _bind(memory: mmap.mmap, total: int, node: int) -> None:
    number = _MBIND.get(platform.machine())
    if number is None:
        raise ConfigurationError(f"FOREBAY_NUMA_NODE is not supported on {platform.machine()}")
    mask = (ctypes.c_ulong * 16)()
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    if node < bits * len(mask):
        mask[node // bits] = 1 << node % bits
    first = ctypes.c_char.from_buffer(memory)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        address = ctypes.c_void_p(ctypes.addressof(first))
        failed = libc.syscall(number, address, ctypes.c_ulong(total), _MPOL_BIND, mask, bits * len(mask), 0)
    finally:
        del first  # it keeps the map open
    if failed:
        reason = os.strerror(ctypes.get_errno())
        raise ConfigurationError(f"FOREBAY_NUMA_NODE={node}: the kernel does not put memory there: {reason}")


def _check_huge_pages(fd: int) -> None:
    if _SHMEM_ENABLED.exists() and _FORCED in _SHMEM_ENABLED.read_text():
        return
    mount, options = _mount_of(os.fstat(fd).st_dev)
    chosen = next((option.removeprefix("huge=") for option in options if option.startswith("huge=")), "never")
    if chosen == "never":
        raise ConfigurationError(
            f"FOREBAY_HUGE_PAGES: {mount} gives none, for it is mounted without huge=advise; "
            f"mount -o remount,huge=advise {mount}, or leave the setting out"
        )


def _mount_of(device: int) -> tuple[str, list[str]]:
    """Where a device is mounted, and the options of its file system."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, file_system = line.partition(" - ")
        if fields.split()[2] == wanted:
            return fields.split()[4], file_system.split()[2].split(",")
    return "the file system", []


ANYWHERE = Placement()
