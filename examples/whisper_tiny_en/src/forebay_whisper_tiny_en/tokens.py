"""The token ids that Whisper's English models give a meaning, and the one that we add."""

from __future__ import annotations

END_OF_TEXT = 50256  # every id below it is text
START_OF_TRANSCRIPT = 50257
NO_TIMESTAMPS = 50362
VOCABULARY = 51864

AUDIO = VOCABULARY
"""Stands for the recording in ``input_ids``: one above the vocabulary, so that the decoder can never say it."""

DECODER_PROMPT = (START_OF_TRANSCRIPT, NO_TIMESTAMPS)
