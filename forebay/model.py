"""Where a model's own files are, and reading them so that a mistake names the file and the key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from forebay.dtypes import DType
from forebay.errors import ConfigurationError

T = TypeVar("T")
_REQUIRED: Any = object()


@dataclass(frozen=True)
class ModelSource:
    """A model as the operator named it: ``NAME`` or ``NAME=DIR`` with a Hugging Face folder.

    ``feature_dtype`` is what its processor writes. Readers take it from the ticket, so only a worker is told.
    ``processor`` is the entry point or the ``module:Class`` that prepares for it; empty for the one of its own name.
    """

    name: str
    folder: Path | None = None
    feature_dtype: DType = DType.FLOAT32
    processor: str = ""

    @classmethod
    def parse(cls, text: str) -> ModelSource:
        """Read ``NAME`` or ``NAME=DIR``.

        Raises:
            ConfigurationError: when the name is empty or the folder does not exist.
        """
        name, separator, folder = text.partition("=")
        if not name:
            raise ConfigurationError(f"--model {text!r}: a model needs a name")
        if not separator:
            return cls(name)
        path = Path(folder).expanduser().resolve()
        if not path.is_dir():
            raise ConfigurationError(f"--model {text!r}: {path} is not a folder")
        return cls(name, path)

    def __str__(self) -> str:
        return self.name if self.folder is None else f"{self.name}={self.folder}"

    def file(self, name: str) -> Path:
        """The path of a file that the model must bring.

        Raises:
            ConfigurationError: when there is no folder, or it lacks the file.
        """
        if self.folder is None:
            raise ConfigurationError(f"model {self.name!r} was given no folder; {name} is needed: use {self.name}=DIR")
        path = self.folder / name
        if not path.is_file():
            raise ConfigurationError(f"model {self.name!r}: {path} is missing")
        return path

    def json(self, name: str) -> JsonFile:
        """Read a JSON object from the folder."""
        path = self.file(name)
        try:
            data = json.loads(path.read_bytes())
        except ValueError as error:
            raise ConfigurationError(f"{path}: not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ConfigurationError(f"{path}: a JSON object was expected, found {type(data).__name__}")
        return JsonFile(path, data)


@dataclass(frozen=True)
class JsonFile:
    """A JSON object that knows which file it came from."""

    path: Path
    data: dict[str, Any]

    def get(self, key: str, kind: type[T] | tuple[type[T], ...], default: Any = _REQUIRED) -> T:
        """The value of ``key``, checked for its type; dots descend into objects.

        Raises:
            ConfigurationError: naming the file and the key, when it is missing or of another type.
        """
        value: Any = self.data
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                return self._absent(key, default)  # type: ignore[no-any-return]
            value = value[part]
        if value is None and default is not _REQUIRED:
            return default  # type: ignore[no-any-return]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind in (int, float, (int, float))):
            raise ConfigurationError(f"{self.path}: key {key!r} has the unsupported value {value!r}")
        return value

    def _absent(self, key: str, default: Any) -> Any:
        if default is _REQUIRED:
            raise ConfigurationError(f"{self.path}: key {key!r} is missing")
        return default

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(self.data)
