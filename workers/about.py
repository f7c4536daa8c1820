"""Whose a node's folder is, for an operator who has only the folder: deployment, node, and where its Redis is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from forebay.errors import ConfigurationError
from forebay.settings import NodeSettings
from handoff.connection import without_password
from handoff.drafts import write_whole

_FILE = "about.json"


@dataclass(frozen=True, slots=True)
class About:
    """``redis_url`` is without its password; one who looks must know that."""

    deployment: str
    node: str
    redis_url: str
    models: tuple[str, ...]

    @property
    def lacks_password(self) -> bool:
        """Whether there is one, which was left out."""
        return "…" in self.redis_url

    @classmethod
    def of(cls, settings: NodeSettings, models: tuple[str, ...]) -> About:
        return cls(settings.deployment, settings.node, without_password(settings.redis_url), models)

    def write(self, folder: Path) -> None:
        """Leave a note in the node's folder.

        Raises:
            OSError: the file system is full.
        """
        write_whole(folder / _FILE, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, folder: Path) -> About | None:
        """The note; ``None`` where no worker has started yet.

        Raises:
            ConfigurationError: it is of another release, or damaged.
        """
        path = folder / _FILE
        try:
            facts = json.loads(path.read_text())
            return cls(**facts | {"models": tuple(facts["models"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"{path}: not a note that this release reads: {error}") from error
