"""The same question about many files: what is to be asked, and what has been answered. The clients do the asking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol

from forebay.client.errors import UnreachableError
from forebay.client.files import media_files
from forebay.client.results import Results
from forebay.client.rows import Question, Row
from forebay.client.verbs import new_rid

CONCURRENCY = 4
"""Requests at once: enough to keep a small node's workers busy while answers are on their way."""


class Progress(Protocol):
    """Told of each row as it comes, with how many there are by then and will be."""

    def __call__(self, row: Row, done: int, total: int, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Task:
    """One file that is to be asked about, and its place among the rows."""

    place: int
    path: Path


@dataclass(slots=True)
class Batch:
    """A batch that runs."""

    question: Question
    files: list[Path]
    results: Results | None = None
    progress: Progress | None = None
    _rows: dict[int, Row] = field(default_factory=dict)
    _live: set[str] = field(default_factory=set)
    _is_stopped: bool = False

    @classmethod
    def plan(
        cls,
        source: str | Path | Iterable[str | Path],
        question: Question,
        recursive: bool,
        out: str | Path | None,
        progress: Progress | None,
    ) -> Batch:
        """Find the files and what a former run has answered.

        Raises:
            FileError: no such folder, or ``out`` cannot be used.
        """
        files = media_files(source, recursive=recursive)
        results = None if out is None else Results(Path(out), question)
        batch = cls(question, files, results, progress)
        answered = results.answered if results else {}
        for place, path in enumerate(files):
            if str(path) in answered:
                batch._have(place, answered[str(path)])
        return batch

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.results is not None:
            self.results.close()

    @property
    def left(self) -> list[Task]:
        """What is still to be asked."""
        return [Task(place, path) for place, path in enumerate(self.files) if place not in self._rows]

    @property
    def rows(self) -> list[Row]:
        """A row for each file, in their order, once all have ended."""
        return [self._rows[place] for place in range(len(self.files))]

    @contextmanager
    def asking(self) -> Iterator[str]:
        """The id of a request that is under way for the time of the block.

        Raises:
            UnreachableError: the batch was stopped.
        """
        rid = new_rid()
        self._live.add(rid)
        try:
            if self._is_stopped:
                raise UnreachableError("the batch was stopped", was_sent=False)
            yield rid
        finally:
            self._live.discard(rid)

    def ended(self, task: Task, row: Row) -> None:
        """Keep a row."""
        if self.results is not None:
            self.results.add(row)
        self._have(task.place, row)

    def _have(self, place: int, row: Row) -> None:
        self._rows[place] = row
        if self.progress is not None:
            self.progress(row, len(self._rows), len(self.files))

    def stop(self) -> list[str]:
        """Let nothing more begin; the ids of requests that are under way."""
        self._is_stopped = True
        return list(self._live)
