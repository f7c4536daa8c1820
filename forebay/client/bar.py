"""How far a batch has come, drawn on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from forebay.client.batch import Progress
from forebay.client.rows import Row


@contextmanager
def progress_bar(console: Console | None = None) -> Iterator[Progress]:
    """A bar that grows with each row, for the ``progress`` of ``batch``; nothing where it would be no terminal's.

    Args:
        console: where it is drawn; standard error, by default.
    """
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with RichProgress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("asking", total=None)

        def advance(row: Row, done: int, total: int, /) -> None:
            bar.update(task, completed=done, total=total, description=Path(row.file).name)

        yield advance
