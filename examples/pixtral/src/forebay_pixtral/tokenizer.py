"""The tokenizer inside mistral-common, as Forebay's flow needs one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer


class TekkenTokenizer:
    """Mistral's library tokenizes plain text and takes no special token from it; here those spelled out are found."""

    def __init__(self, tekken: Tekkenizer) -> None:
        self._tekken = tekken
        self._special = {tekken.id_to_piece(number): number for number in sorted(tekken.special_ids)}
        self._edges = re.compile(f"({'|'.join(map(re.escape, self._special))})")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in filter(None, self._edges.split(text)):
            if piece in self._special:
                ids.append(self._special[piece])
            else:
                ids += self._tekken.encode(piece, bos=False, eos=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return self._tekken.decode(list(ids), special_token_policy=SpecialTokenPolicy.IGNORE)

    @property
    def size(self) -> int:
        return self._tekken.n_words
