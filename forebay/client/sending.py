"""The arguments of ``forebay send``: which are files, which are folders, and which is the prompt."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forebay.client.errors import FileError
from forebay.client.files import KINDS

_FILE_NAME = re.compile(r"\S*\.\w{2,5}|\S*/\S*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sending:
    """What is to be sent."""

    paths: tuple[Path, ...]
    prompt: str | None

    @classmethod
    def of(cls, arguments: Sequence[str], exists: Callable[[str], bool] = os.path.exists) -> Sending:
        """Arguments that exist are files or folders; the last that does not is the prompt.

        Raises:
            FileError: another one does not exist, or the last one looks like the name of a file.
        """
        # Not Path.exists, which raises on a prompt that is too long for a name.
        there = [exists(one) for one in arguments]
        missing = [one for one, is_there in zip(arguments, there, strict=True) if not is_there]
        paths = tuple(Path(one) for one, is_there in zip(arguments, there, strict=True) if is_there)
        for one in missing[:-1]:
            raise FileError(f"{one}: no such file")
        if missing and _is_file_name(missing[0], alone=not paths):
            raise FileError(f"{missing[0]}: no such file")
        return cls(paths, missing[0] if missing else None)


def _is_file_name(text: str, *, alone: bool) -> bool:
    """Whether somebody meant a file: one word with a suffix or a slash, or the only argument with media's suffix."""
    return _FILE_NAME.fullmatch(text) is not None or (alone and Path(text).suffix.lower() in KINDS)
