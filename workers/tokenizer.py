"""The tokenizer of a model folder, as processors see tokenizers."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer as FastTokenizer

from forebay.errors import ConfigurationError
from forebay.model import ModelSource
from forebay.processor import Tokenizer


class FileTokenizer:
    """A ``tokenizer.json``. One instance serves one process; it is never shared by threads."""

    def __init__(self, fast: FastTokenizer) -> None:
        self._fast = fast

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._fast.decode(list(ids), skip_special_tokens=True)
        return text

    @property
    def size(self) -> int:
        return int(self._fast.get_vocab_size(with_added_tokens=True))


def of_folder(model: ModelSource) -> Tokenizer | None:
    """The folder's tokenizer; ``None`` for a model that was given no folder.

    Raises:
        ConfigurationError: the folder has no readable ``tokenizer.json``.
    """
    if model.folder is None:
        return None
    path = model.file("tokenizer.json")
    try:
        return FileTokenizer(FastTokenizer.from_file(str(path)))
    except Exception as error:  # the library raises bare Exception
        raise ConfigurationError(f"{path}: not a tokenizer: {error}") from error
