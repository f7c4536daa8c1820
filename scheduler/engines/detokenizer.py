"""Token ids to text while they come, without ever sending half a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """The text of one answer. Pieces joined are exactly the text of all ids."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._settled = 0  # ids whose text will not change any more
        self._sent = 0  # characters already given, of the text of the ids not settled yet

    def add(self, token_id: int) -> str:
        """The text that ``token_id`` brings, empty while a character is incomplete."""
        self._ids.append(token_id)
        text = self._decode(self._ids[self._settled :])
        if text.endswith(_UNFINISHED):
            return ""
        piece = text[self._sent :]
        self._settle(text)
        return piece

    def rest(self) -> str:
        """What was held back, at the end."""
        return self._decode(self._ids[self._settled :])[self._sent :]

    def _settle(self, text: str) -> None:
        # One id of overlap: some decoders drop the first space of what they are given.
        self._settled = len(self._ids) - 1
        self._sent = len(self._decode(self._ids[self._settled :]))
