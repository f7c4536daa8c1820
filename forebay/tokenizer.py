"""A ``tokenizer.json`` as the flow needs it. The ``tokenizers`` library comes in only when a file is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from forebay.errors import ConfigurationError

TOKENIZER_FILE = "tokenizer.json"


class FileTokenizer:
    """One instance serves one process; it is never shared by threads."""

    def __init__(self, fast: Any) -> None:
        self._fast = fast

    @classmethod
    def load(cls, path: Path) -> FileTokenizer:
        """Read a tokenizer file.

        Raises:
            ConfigurationError: it is no tokenizer, or the library is not installed.
        """
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ConfigurationError(f"{path} needs the 'tokenizers' library: pip install 'forebay[tier]'") from error
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise ConfigurationError(f"{path}: not a tokenizer: {error}") from error

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._fast.encode(text, add_special_tokens=False).ids
        return ids

    def encode_text(self, text: str) -> list[int]:
        """Token ids of ``text`` as nothing but text: special tokens spelled out in it are letters."""
        self._fast.encode_special_tokens = True
        try:
            return self.encode(text)
        finally:
            self._fast.encode_special_tokens = False

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """The tokens that stand for no text, by how they are spelled."""
        added = self._fast.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._fast.decode(list(ids), skip_special_tokens=True)
        return text

    def id_of(self, token: str) -> int | None:
        """The id of a token, or ``None`` when the vocabulary lacks it."""
        found: int | None = self._fast.token_to_id(token)
        return found

    @property
    def size(self) -> int:
        return int(self._fast.get_vocab_size(with_added_tokens=True))
