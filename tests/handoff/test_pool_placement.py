"""Where the pool's memory lies: in huge pages, on a NUMA node, or a sentence that says why not."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import pytest

from forebay import ConfigurationError
from handoff.pool import Placement, Pool
from tests.support.small_tmpfs import Place, within

SIZE = 16 << 20
HUGE = Placement(huge_pages=True)
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
needs_huge_pages = pytest.mark.skipif(not HUGE_PAGES.exists(), reason="this kernel was built without huge pages")


def mapped_hugely(path: Path) -> int:
    """KiB of a file that this process maps by huge pages."""
    smaps = Path("/proc/self/smaps").read_text()
    parts = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", smaps)
    own = [part for part in parts if part.partition("\n")[0].endswith(str(path))]
    return sum(int(size) for part in own for size in re.findall(r"ShmemPmdMapped: +(\d+) kB", part))


@needs_huge_pages
def test_a_pool_lies_in_huge_pages_where_the_file_system_gives_them(tmp_path):
    """All of its data, in the writer's map and in the reader's."""

    def act(place: Place) -> list[int]:
        path = place.folder / "pool"
        Pool.create(path, SIZE, "", HUGE)
        found = []
        for writable in (True, False):
            pool = Pool(path, "worker-1", writable=writable)
            found.append(mapped_hugely(path))
            pool.close()
        return found

    assert within("64m", tmp_path, act, huge="advise") == [SIZE >> 10, SIZE >> 10]


@needs_huge_pages
def test_a_file_system_without_huge_pages_says_how_to_get_them(tmp_path):
    """And nothing is left of the attempt."""

    def act(place: Place) -> tuple[str, list[str]]:
        with pytest.raises(ConfigurationError) as caught:
            Pool.create(place.folder / "pool", SIZE, "", HUGE)
        return str(caught.value), os.listdir(place.folder)

    told, left = within("64m", tmp_path, act, huge="never")

    assert told == (
        f"FOREBAY_HUGE_PAGES: {tmp_path} gives none, for it is mounted without huge=advise; "
        f"mount -o remount,huge=advise {tmp_path}, or leave the setting out"
    )
    assert left == []


@needs_huge_pages
def test_no_room_for_huge_pages_is_no_room(tmp_path):
    """The usual sentence, with both numbers."""

    def act(place: Place) -> str:
        with pytest.raises(ConfigurationError) as caught:
            Pool.create(place.folder / "pool", 2 * SIZE, "", HUGE)
        return str(caught.value)

    assert "the feature pool needs" in within("32m", tmp_path, act, huge="advise")


def test_a_pool_may_lie_on_a_node_of_its_own(shm):
    """The first is always there. Whoever maps the pool has it there, as the kernel itself says."""
    Pool.create(shm / "pool", SIZE, "", Placement(numa_node=0))

    pool = Pool(shm / "pool", "worker-1", writable=True)
    places = [line for line in Path("/proc/self/numa_maps").read_text().splitlines() if str(shm) in line]

    assert pool.stats().free_bytes == SIZE
    assert [" bind:0 " in line for line in places] == [True, True]  # table and data
    pool.close()


def test_a_machine_whose_call_to_the_kernel_is_unknown_is_told(shm, monkeypatch):
    """Rather than to call something else by another machine's number."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(ConfigurationError, match="FOREBAY_NUMA_NODE is not supported on riscv64"):
        Pool.create(shm / "pool", SIZE, "", Placement(numa_node=0))
    assert list(shm.iterdir()) == []


@pytest.mark.parametrize("node", [63, 1000, 1023, 5000])
def test_a_node_that_is_not_there_is_refused(shm, node):
    """With the kernel's reason; and nothing is left."""
    with pytest.raises(ConfigurationError, match=f"FOREBAY_NUMA_NODE={node}: the kernel does not put memory there: "):
        Pool.create(shm / "pool", SIZE, "", Placement(numa_node=node))

    assert list(shm.iterdir()) == []
