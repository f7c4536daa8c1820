"""What a model folder says in ``config.json``; a missing or wrong key is told with the file and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from forebay import ConfigurationError, ModelSource

ORDINARY, TWO_D = "ordinary", "2d"


@dataclass(frozen=True, slots=True)
class Settings:
    """A folder's settings.

    Attributes:
        vocab_size: number of token ids.
        max_position_embeddings: the longest expanded prompt.
        page_token_id: stands for a page in a prompt, and for each of its patches.
        film_token_id: stands for a filmed page in a prompt.
        row_token_id: ends a row of patches.
        thumbnail_token_id: carries the small picture of a page.
        crop_token_id: carries what is in a region.
        place_token_id: carries where a region is.
        max_boxes: the most regions of one page.
        page_positions: ``ordinary``, or ``2d`` for a model whose positions follow a page's rows and columns.
    """

    vocab_size: int
    max_position_embeddings: int
    page_token_id: int
    film_token_id: int
    row_token_id: int
    thumbnail_token_id: int
    crop_token_id: int
    place_token_id: int
    max_boxes: int
    page_positions: str

    @classmethod
    def read(cls, model: ModelSource) -> Settings:
        """The settings of a model's folder.

        Raises:
            ConfigurationError: there is no folder, no file, or a key will not do.
        """
        file = model.json("config.json")
        numbers = {one.name: file.get(one.name, int) for one in fields(cls) if one.name != "page_positions"}
        settings = cls(**numbers, page_positions=file.get("page_positions", str))
        if settings.page_positions not in (ORDINARY, TWO_D):
            raise ConfigurationError(
                f"{file.path}: key 'page_positions' is {settings.page_positions!r}; it is {ORDINARY!r} or {TWO_D!r}"
            )
        return settings

    @property
    def marks(self) -> frozenset[int]:
        """The tokens that stand for no text."""
        return frozenset(value for name, value in asdict(self).items() if name.endswith("_token_id"))

    def as_map(self) -> Mapping[str, Any]:
        return asdict(self)
