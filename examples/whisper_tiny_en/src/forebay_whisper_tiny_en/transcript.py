"""Text as it grows: tokens in, text out, never half a character. What was given out joins to the exact final text."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class Transcript:
    """The text of one answer. The space that Whisper puts before the first word is left out."""

    def __init__(self, vocabulary: Sequence[bytes]) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._has_begun = False

    def add(self, token: int) -> str:
        """The text that ``token`` completes; the bytes of an unfinished character wait for the next."""
        return self._without_lead(self._decoder.decode(self._vocabulary[token]))

    def end(self) -> str:
        """What is left: a replacement character, if a character was never finished."""
        return self._without_lead(self._decoder.decode(b"", final=True))

    def _without_lead(self, text: str) -> str:
        if not self._has_begun:
            text = text.lstrip(" ")
            self._has_begun = bool(text)
        return text
