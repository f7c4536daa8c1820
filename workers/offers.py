"""What the children of a worker can do, told to its parent through a file, and to everybody through the register.

The parent never imports a model package: only the children do, after the fork.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from forebay.errors import ConfigurationError
from forebay.plugins import LoadedProcessor
from handoff.drafts import write_whole


class Offers:
    """The file through which children report to their parent."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"offers-{name}.json"

    def clear(self) -> None:
        """Forget what children of an earlier worker reported."""
        self._path.unlink(missing_ok=True)

    def report(self, processors: Iterable[LoadedProcessor], broken: Mapping[str, str] | None = None) -> None:
        """A child is ready; for the models in ``broken`` it has no processor, for the reason there."""
        told: dict[str, Any] = {"processors": [_describe(loaded) for loaded in processors]}
        self._write(told | ({"broken": dict(broken)} if broken else {}))

    def report_failure(self, message: str) -> None:
        """A child cannot start, and neither could its successor."""
        self._write({"failure": message})

    def read(self) -> dict[str, Any] | None:
        """The latest report; ``None`` before the first."""
        try:
            report: dict[str, Any] = json.loads(self._path.read_text())
        except FileNotFoundError:
            return None
        return report

    def _write(self, report: dict[str, Any]) -> None:
        try:
            write_whole(self._path, json.dumps(report).encode())
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written: {error.strerror}") from error


def _describe(loaded: LoadedProcessor) -> dict[str, Any]:
    capabilities = loaded.capabilities
    return {
        "model": loaded.name,
        "fingerprint": loaded.fingerprint,
        "modalities": {str(modality): limit for modality, limit in capabilities.modalities.items()},
        "extensions": capabilities.extensions is not None,
    }
