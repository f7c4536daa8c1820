"""Reading a CTranslate2 ``model.bin``: a header, then variables one after another, all little-endian.

A string is a 16-bit length and that many bytes, the last one zero. A variable is its name, its rank in 8 bits, its
sides in 32 bits each, its type in 8 bits, its size in bytes in 32 bits, and its data.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from forebay import ConfigurationError

SPECIFICATION = "WhisperSpec"
_FLOATS: dict[int, np.dtype[Any]] = {0: np.dtype("<f4"), 4: np.dtype("<f2")}  # by the file's own type numbers

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The floating-point variables of a file, by name. The others are settings that the architecture fixes."""

    path: Path
    variables: Mapping[str, Array]

    def array(self, name: str) -> Array:
        """The variable ``name``.

        Raises:
            ConfigurationError: the file lacks it, or holds it in another type.
        """
        if name not in self.variables:
            raise ConfigurationError(f"{self.path}: variable {name!r} is missing, or neither float16 nor float32")
        return self.variables[name]


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a Whisper model's variables; the arrays are views of the file's bytes.

    Raises:
        ConfigurationError: naming the file, when it is another model's or is cut short.
    """
    cursor = _Cursor(path, path.read_bytes())
    cursor.number("I")  # version of the format
    specification = cursor.text()
    if specification != SPECIFICATION:
        raise ConfigurationError(f"{path}: holds a {specification!r} model, a {SPECIFICATION!r} is needed")
    cursor.number("I")  # revision of the specification
    variables = dict(cursor.variable() for _ in range(cursor.number("I")))
    return Checkpoint(path, {name: array for name, array in variables.items() if array is not None})


@dataclass(slots=True)
class _Cursor:
    """A place in the file's bytes that moves as values are read."""

    path: Path
    data: bytes
    at: int = 0

    def take(self, size: int) -> memoryview:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ConfigurationError(f"{self.path}: cut short: {self.at} bytes are needed, it has {len(self.data)}")
        return memoryview(self.data)[start : self.at]

    def number(self, kind: str) -> int:
        """An unsigned number, ``kind`` as ``struct`` writes it."""
        value: int = struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)))[0]
        return value

    def text(self) -> str:
        return bytes(self.take(self.number("H"))).rstrip(b"\0").decode("utf-8", "replace")

    def variable(self) -> tuple[str, Array | None]:
        """The next variable; ``None`` for its data where that is not floating-point."""
        name = self.text()
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind = _FLOATS.get(self.number("B"))
        data = self.take(self.number("I"))
        return name, None if kind is None else np.frombuffer(data, kind).reshape(shape)
