"""A JSONL file of rows that grows while a batch runs, and from which a later run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

from forebay.client.errors import FileError
from forebay.client.rows import Question, Row


class Results:
    """Rows on disk, each whole as soon as it is added. Of several rows for a file the last one counts.

    Args:
        path: the file; it is made if it is missing, else it is added to.
        question: what is asked now. Rows of another question stay, and answer nothing.

    Raises:
        FileError: it cannot be read or written, or holds something else.
    """

    def __init__(self, path: Path, question: Question) -> None:
        self._question = question
        self.answered: dict[str, Row] = {}
        try:
            self._file: BinaryIO = path.open("a+b")
        except OSError as error:
            raise FileError(f"{path}: {error.strerror}") from error
        try:
            self._read(path)
        except BaseException:
            self._file.close()
            raise

    def _read(self, path: Path) -> None:
        self._file.seek(0)
        whole, _, rest = self._file.read().rpartition(b"\n")
        if rest:  # somebody was killed while writing this row
            self._file.truncate(len(whole) + bool(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise FileError(f"{path}: line {number} is no row of a batch") from error

    def _take(self, told: dict[str, object]) -> None:
        row = Row.from_map(told)
        if row.is_answered and (told["prompt"], told["model"]) == (self._question.prompt, self._question.model):
            self.answered[row.file] = row

    def add(self, row: Row) -> None:
        """Write a row."""
        line = json.dumps(row.as_map(self._question), ensure_ascii=False)
        self._file.write(line.encode(errors="backslashreplace") + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
