"""Tokens that a transcription may not contain, and those that it may not begin with, as the model's file lists them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from forebay import ModelSource
from forebay_whisper_tiny_en import tokens


class Suppression:
    """Takes forbidden tokens out of the running, by an addition to their logits."""

    def __init__(self, always: Sequence[int], first: Sequence[int], device: torch.device) -> None:
        self._always = torch.zeros(tokens.VOCABULARY, device=device)
        self._always[list(always)] = -torch.inf
        # Beyond the text lie commands and timestamps: the prompt asks for none, and they have no text.
        self._always[tokens.END_OF_TEXT + 1 :] = -torch.inf
        self._first = self._always.clone()
        self._first[list(first)] = -torch.inf

    @classmethod
    def read(cls, files: ModelSource, device: torch.device) -> Suppression:
        """Read the lists of the model's ``config.json``.

        Raises:
            ConfigurationError: naming the file and the key.
        """
        config = files.json("config.json")
        return cls(config.get("suppress_ids", list), config.get("suppress_ids_begin", list), device)

    def apply(self, logits: torch.Tensor, *, is_first: bool) -> torch.Tensor:
        return logits + (self._first if is_first else self._always)
