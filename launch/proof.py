"""Proof that a run leaves nothing: what it had, and what of it is still there."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from launch.supervisor import Supervisor


@dataclass(slots=True)
class Traces:
    """The processes and folders of a run, noted while it runs and looked for afterwards."""

    pids: set[int] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)

    def take(self, supervisor: Supervisor) -> None:
        """Note every part, all of its descendants, and the run's folders."""
        self.pids = descendants(os.getpid())
        self.folders = {supervisor.folder, *supervisor.shared_folders}

    def left(self) -> dict[str, list[str]]:
        """What is still there, by kind; all lists empty when nothing is."""
        return {
            "processes": sorted(str(pid) for pid in self.pids if Path(f"/proc/{pid}").exists()),
            "files on tmpfs and disk": sorted(str(folder) for folder in self.folders if folder.exists()),
        }


def descendants(pid: int) -> set[int]:
    """Every process below ``pid``, from ``/proc``."""
    children: dict[int, set[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        children.setdefault(int(fields[1]), set()).add(int(status.parent.name))
    found: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = set().union(*(children.get(one, set()) for one in fresh)) - found
        found |= fresh
    return found
